"""Options of `crabka lake`, and the settings of tables and sources that follow from them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from crabka.cli.node.process import parse_settings
from crabka.cli.node.serve import read_properties
from crabka.cli.options import (
    DEFAULT_BOOTSTRAP,
    DURATION,
    SIZE,
    Bootstrap,
    CommandConfig,
    as_hours_ms,
    as_mebibytes,
    as_seconds_ms,
)
from crabka.cli.units import format_duration
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from crabka.spark.lake.formats.tables import Lake

DEFAULT_FORMAT = "delta"

Topics = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics.", show_default=False)]
Tables = Annotated[list[str], typer.Argument(metavar="TABLE...", help="Names of tables.", show_default=False)]
Root = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="URL",
        envvar="CRABKA_LAKE",
        help="Place of the tables: a directory, file:///directory, s3://bucket/prefix?endpoint=….",
        show_default=False,
    ),
]
Format = Annotated[str, typer.Option("--format", help="delta, iceberg or parquet.")]
Pattern = Annotated[
    str | None, typer.Option("--pattern", metavar="REGEX", help="All topics whose names match.", show_default=False)
]
TableName = Annotated[
    str | None,
    typer.Option("--table", help="Name of the table, for one topic; default is the topic.", show_default=False),
]
ValueMode = Annotated[
    str, typer.Option("--value", help="Format of values: raw, json, avro, avro-plain or avro-confluent.")
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE|DDL",
        help="Schema of values: Spark's DDL or JSON, or Avro's. For JSON it can be inferred.",
        show_default=False,
    ),
]
PartitionBy = Annotated[
    str | None, typer.Option("--partition-by", metavar="date|COLUMN", help="One value per file.", show_default=False)
]
TargetBytes = Annotated[
    int, typer.Option("--target-size", metavar=SIZE, parser=as_mebibytes, help="Target size of files, such as 256MiB.")
]
RoundBytes = Annotated[
    int, typer.Option("--round-size", metavar=SIZE, parser=as_mebibytes, help="Approximate size of a commit.")
]
# As an operator would type them; `parser` makes them numbers.
DEFAULT_TARGET: Final[Any] = "128MiB"
DEFAULT_ROUND: Final[Any] = "4GiB"
DEFAULT_INTERVAL: Final[Any] = "1m"
DEFAULT_GRACE: Final[Any] = "7d"
IntervalMs = Annotated[
    int,
    typer.Option(
        "--interval", metavar=DURATION, parser=as_seconds_ms, help="Pause between the rounds of --follow, such as 5m."
    ),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master, or sc://… of Connect; local[*].", show_default=False),
]
Catalog = Annotated[
    str | None,
    typer.Option("--catalog", help="A catalog in pyiceberg's configuration; default is SQLite.", show_default=False),
]
TierUrl = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="URL",
        envvar="CRABKA_TIER",
        help="Address of the tier, if the cluster does not publish it.",
        show_default=False,
    ),
]
RequiredTier = Annotated[
    str,
    typer.Option(
        "--tier",
        metavar="URL",
        envvar="CRABKA_TIER",
        help="file:///directory, s3://bucket/prefix?endpoint=…, gs://…, az://….",
        show_default=False,
    ),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the Spark source.", show_default=False),
]
Grace = Annotated[
    int,
    typer.Option("--grace", metavar=DURATION, parser=as_hours_ms, help="Minimum age of what is deleted, such as 7d."),
]
ShortGrace = Annotated[
    bool,
    typer.Option(
        "--allow-short-grace",
        help="Allow a grace below one hour: syncs, compactions and queries that run may miss files.",
    ),
]
_LEAST_GRACE_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """The place of tables."""

    root: Root
    table_format: Format = DEFAULT_FORMAT
    catalog: Catalog = None

    def open(self) -> Lake:
        """Return the place of the tables. Raises ConfigError."""
        from crabka.spark.lake.formats.tables import Lake

        return Lake(self.root, self.table_format, lambda: int(time.time() * 1000), self.catalog)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlace:
    """The source of topics."""

    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    command_config: CommandConfig = None
    tier: TierUrl = None
    option: SourceOption = None

    def source_options(self) -> dict[str, str]:
        """Return the options of the Spark source. Raises ConfigError."""
        client = read_properties(self.command_config) if self.command_config else {}
        options = {f"kafka.{name}": value for name, value in client.items()}
        explicit = parse_settings(self.option or (), "--option")
        without_cluster = explicit.get("tier.metadata", "topic") != "topic"
        if not without_cluster:
            options["kafka.bootstrap.servers"] = self.bootstrap
        if self.tier is not None:
            options["tier.uri"] = self.tier
        return options | explicit


def check_grace(grace_ms: int, *, allow_short: bool) -> None:
    """Raise ConfigError for a grace that may delete files in use."""
    if grace_ms < _LEAST_GRACE_MS and not allow_short:
        raise ConfigError(
            f"a grace of {format_duration(grace_ms)} may delete files of syncs, compactions and queries that run now; "
            "if there are none, add --allow-short-grace"
        )


def read_schema(given: str | None) -> str | None:
    """Return the text of a schema that is given by itself or in a file. Raises ConfigError."""
    if given is None:
        return None
    if given.lstrip().startswith("{") or " " in given.strip():
        return given
    try:
        return Path(given).read_text()
    except OSError as error:
        raise ConfigError(f"--schema {given}: {error.strerror or error}") from error
