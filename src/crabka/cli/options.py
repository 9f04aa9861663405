"""Options that several commands share, and texts that name partitions, offsets and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Final

import typer

from crabka.cli.units import parse_config_settings, parse_duration_ms, parse_size_bytes
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
# A 64-bit number of the protocol.
_MOST: Final = (1 << 63) - 1
DURATION: Final = "DURATION"
SIZE: Final = "SIZE"

Bootstrap = Annotated[
    str, typer.Option("--bootstrap", "-b", envvar="CRABKA_BOOTSTRAP", help="HOST:PORT of a broker, or several.")
]
BootstrapController = Annotated[
    str | None,
    typer.Option("--bootstrap-controller", help="HOST:PORT of controllers, instead of brokers.", show_default=False),
]
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="CRABKA_COMMAND_CONFIG",
        help="Client properties: security.protocol, ssl.*, sasl.*, client.id.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
# A command that destroys something, or that computes what it changes, shows its plan without this option.
Execute = Annotated[
    bool,
    typer.Option("--execute", "--yes", "-y", help="Carry out the plan; without this option it is only shown."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting, such as retention.ms=7d."),
]
GroupName = Annotated[str, typer.Argument(help="Name of the group.", metavar="GROUP", show_default=False)]
TopicPlaces = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC[:0,1]", help="A topic or some of its partitions.", show_default=False),
]


def _parser(parse: Callable[[str], int], *, least: int = 0) -> Callable[[str], int]:
    """Return a parser for an option."""

    def call(given: str) -> int:
        try:
            found = parse(given)
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from error
        if not least <= found <= _MOST:
            raise typer.BadParameter(f"{given} is not within {least} … {_MOST}")
        return found

    return call


# For `typer.Option(parser=…, metavar=DURATION)` and the same with SIZE. The default is a text: help shows it as given.
# Some options took plain numbers before they took units; they still do.
as_duration_ms: Final = _parser(parse_duration_ms)
as_seconds_ms: Final = _parser(partial(parse_duration_ms, bare="s"))
as_minutes_ms: Final = _parser(partial(parse_duration_ms, bare="m"))
as_hours_ms: Final = _parser(partial(parse_duration_ms, bare="h"))
as_size_bytes: Final = _parser(parse_size_bytes, least=1)
as_mebibytes: Final = _parser(partial(parse_size_bytes, bare="mib"), least=1)


def settings_of(texts: Iterable[str] | None) -> dict[str, str]:
    """Return the settings given by --config, in Kafka's units. Raises ConfigError."""
    return parse_config_settings(texts or (), "--config")


def parse_partition(text: str) -> tuple[str, int | None]:
    """Split `topic` or `topic:partition`. Raises ConfigError."""
    topic, separator, partition = text.rpartition(":")
    if not separator:
        return text, None
    if not partition.isdecimal():
        raise ConfigError(f"{text}: not of the form TOPIC or TOPIC:PARTITION")
    return topic, int(partition)


def split_places(texts: Iterable[str]) -> list[str]:
    """Return `topic:0,1` as `topic:0` and `topic:1`; other texts stay as they are."""
    places: list[str] = []
    for text in texts:
        topic, separator, partitions = text.rpartition(":")
        places += [f"{topic}:{partition}" for partition in partitions.split(",")] if separator else [text]
    return places


def parse_partition_offset(text: str) -> tuple[TopicPartition, int]:
    """Split `topic:partition:offset`; the offset -1 means the end. Raises ConfigError."""
    place, _, offset = text.rpartition(":")
    topic, partition = parse_partition(place)
    if partition is None or not topic or not offset.removeprefix("-").isdecimal():
        raise ConfigError(f"{text}: not of the form TOPIC:PARTITION:OFFSET")
    return TopicPartition(topic, partition), int(offset)


def parse_ids(text: str, option: str) -> list[int]:
    """Return the node ids of `1,2,3`. Raises ConfigError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"{option} {text}: not ids of nodes, separated by commas")
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        raise ConfigError(f"{option} {text}: a node is named twice")
    return ids
