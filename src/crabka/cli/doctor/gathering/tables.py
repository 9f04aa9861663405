"""The state of tables of the lake, as `crabka lake status` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crabka.cli.doctor.checks.tables import TableFacts
from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.extras import needs_extra
from crabka.cli.lake.options import TablePlace
from crabka.errors import ConfigError, CrabkaError


class LakeTables(NamedTuple):
    """The tables that were named, and where they are."""

    lake: str | None
    names: Sequence[str]
    table_format: str


def gather_tables(wanted: LakeTables, source_options: Mapping[str, str]) -> list[TableFacts]:
    """Return the tables; blocks. Raises NotApplicableError if none is named, ConfigError without the libraries."""
    if wanted.lake is None or not wanted.names:
        raise NotApplicableError("name tables with --lake URL and --table NAME")
    with needs_extra("doctor --lake"):
        from crabka.spark.lake.maintenance.status import table_status
        from crabka.spark.lake.syncing.planner_source import PlannerSource

        lake = TablePlace(root=wanted.lake, table_format=wanted.table_format).open()
        source = PlannerSource(dict(source_options))

        def read(name: str) -> TableFacts:
            try:
                found = table_status(lake, name, source, lake.now_ms())
            except ConfigError:
                raise
            except (CrabkaError, OSError) as error:
                return TableFacts(name, "", lake.root, None, None, 0, 0, 0, " ".join(str(error).split()))
            return TableFacts(
                name,
                found.topic,
                lake.root,
                found.lag,
                found.age_ms,
                found.dead_rows,
                found.files,
                found.size_bytes,
            )

        return [read(name) for name in wanted.names]
