"""`crabka offsets`: first and last offsets of partitions, and offsets by time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, CommandConfig, parse_partition
from crabka.cli.output import Column, Row, print_rows
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.clients.fetcher.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

app = typer.Typer(help="Offsets of partitions.", no_args_is_help=False)

SPECIAL = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
}


@app.callback()
def _group() -> None:
    """Offsets of partitions."""


@app.command()
def get(
    places: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:PARTITION]...", help="Partitions to list.", show_default=False)
    ],
    at: Annotated[
        str, typer.Option("--at", help=f"{', '.join(SPECIAL)}, milliseconds since 1970 or an ISO time.")
    ] = "latest",
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    committed: Annotated[bool, typer.Option("--committed", help="Stop at open transactions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the first offset at or after a time, or a special one."""
    timestamp = parse_time(at)

    async def ask(admin: Admin) -> list[Row]:
        partitions = await expand(admin, places)
        found = await admin.list_offsets(dict.fromkeys(partitions, timestamp), read_committed=committed)
        return [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": _known(found[partition].offset),
                "timestamp": _known(found[partition].timestamp),
                "epoch": _known(found[partition].leader_epoch),
            }
            for partition in partitions
        ]

    rows = with_admin(bootstrap, ask, command_config=command_config)
    print_rows(("topic", "partition", "offset", "timestamp", Column("epoch", yields=1)), rows, as_json=as_json)


def _known(number: int) -> int | None:
    """Return None for the -1 with which brokers answer that there is none."""
    return None if number < 0 else number


def parse_time(text: str) -> int:
    """Return the timestamp of the request: a special position, milliseconds or an ISO time. Raises ConfigError."""
    if text in SPECIAL:
        return SPECIAL[text]
    try:
        return parse_moment(text)
    except ConfigError:
        raise ConfigError(f"{text}: neither {', '.join(SPECIAL)} nor a time") from None


def parse_moment(text: str) -> int:
    """Return milliseconds since 1970 of such a number or an ISO time, UTC if it names no zone. Raises ConfigError."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text}: neither milliseconds since 1970 nor a time such as 2026-01-31T12:00:00") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


async def expand(admin: Admin, places: list[str]) -> list[TopicPartition]:
    """Return the partitions of `topic` and `topic:partition` texts. Raises ConfigError, OperationError."""
    named = [parse_partition(place) for place in places]
    topics = await admin.describe_topics(list(dict.fromkeys(topic for topic, _ in named)))
    found: dict[TopicPartition, None] = {}
    for topic, partition in named:
        existing = sorted(topics[topic].partitions)
        if partition is not None and partition not in existing:
            raise ConfigError(f"{topic} has no partition {partition}, it has {len(existing)}")
        for index in existing if partition is None else [partition]:
            found[TopicPartition(topic, index)] = None
    return list(found)
