"""Committing exactly once: a commit is tried against the table as it was planned for, and a failure is settled.

The files of a commit that lost are left where they are. They are never read, and removing them would be a mistake if
the commit had landed after all; `vacuum` does it after a grace.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import pyarrow as pa

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.offsets import Offsets, Settlement, settle
from crabka.spark.lake.formats.table import TableFormat
from crabka.spark.plan.history.witnesses import Chains

_TRIES = 20


class CommitOutcome(Enum):
    """How a commit ended."""

    COMMITTED = auto()
    # Another writer has committed some of these offsets: the files are not needed.
    SUPERSEDED = auto()


def commit_once(
    table: TableFormat,
    files: Sequence[DataFile],
    before: Offsets,
    after: Offsets,
    *,
    witnesses: Chains | None = None,
    retry: bool = True,
) -> CommitOutcome:
    """Commit files, offsets and witnesses, over changes of others that do not touch the offsets; refreshes the table.

    Without `retry` any change by others counts: for rows that were compared with those in the table. Raises LakeError.
    """
    for _attempt in range(_TRIES):
        if table.committed_offsets() != dict(before):
            return CommitOutcome.SUPERSEDED
        try:
            table.commit(files, before, after, witnesses)
        except CommitConflictError:
            table.refresh()
            live = [file.path for file in table.files()]
            match settle(before, table.committed_offsets(), [file.path for file in files], live):
                case Settlement.LANDED:
                    return CommitOutcome.COMMITTED
                case Settlement.SUPERSEDED:
                    return CommitOutcome.SUPERSEDED
                case Settlement.RETRY:
                    if not retry:
                        return CommitOutcome.SUPERSEDED
        else:
            table.refresh()
            return CommitOutcome.COMMITTED
    raise LakeError(f"Others changed the table {_TRIES} times while a commit was tried")


def evolve_to(table: TableFormat, schema: pa.Schema) -> None:
    """Add columns, also if other writers do so. Raises SchemaConflictError and LakeError."""
    for _attempt in range(_TRIES):
        try:
            table.evolve(schema)
        except CommitConflictError:
            table.refresh()
        else:
            table.refresh()
            return
    raise LakeError(f"Others changed the table {_TRIES} times while columns were added")
