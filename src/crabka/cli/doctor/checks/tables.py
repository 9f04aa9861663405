"""Tables of the lake: old, with records that did not fit, in too many small files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Finding, Outcome, counted, error, fine, hint, locally, on_cluster, warning
from crabka.cli.units import format_duration, format_size

OLD_MS: Final = 24 * 3_600_000
MANY_FILES: Final = 100
SMALL_BYTES: Final = 16 << 20


class TableFacts(NamedTuple):
    """A table; None is not known."""

    name: str
    topic: str
    lake: str
    lag: int | None
    age_ms: int | None
    dead_rows: int
    file_count: int
    size_bytes: int
    # Why it could not be read.
    failure: str | None = None


def find_tables(tables: Sequence[TableFacts]) -> Outcome:
    """Return tables that are behind, incomplete or slow to read."""
    findings = [found for each in tables for found in _table(each)]
    if not findings:
        lag = sum(each.lag or 0 for each in tables)
        findings.append(fine(f"{counted(len(tables), 'table')}, {lag:,} records behind"))
    return Outcome(findings)


def _table(each: TableFacts) -> Iterator[Finding]:
    place = ("--to", each.lake)
    if each.failure is not None:
        yield error(
            f"Table {each.name} cannot be read: {each.failure.rstrip('.')}.",
            on_cluster("lake", "status", each.name, *place),
            [each.name],
        )
        return
    if each.lag and each.age_ms is not None and each.age_ms > OLD_MS:
        yield warning(
            f"Table {each.name} is {each.lag:,} records behind {each.topic}; the last commit is "
            f"{format_duration(each.age_ms)} old.",
            on_cluster("lake", "sync", each.topic, *place, "--table", each.name),
            [each.name],
        )
    if each.dead_rows:
        yield warning(
            f"Table {each.name} lacks {each.dead_rows:,} records whose values did not fit; they are dead letters.",
            on_cluster("lake", "status", each.name, *place),
            [each.name],
        )
    if each.file_count >= MANY_FILES and each.size_bytes < each.file_count * SMALL_BYTES:
        yield hint(
            f"Table {each.name} has {each.file_count:,} files of {format_size(each.size_bytes / each.file_count)} on "
            "average, which is slow to read.",
            locally("lake", "compact", each.name, *place),
            [each.name],
        )
