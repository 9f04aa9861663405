"""The contract of Delta, Iceberg and Parquet tables.

A table object is a view of one moment: what it says and what it commits against is the table as it was at the last
`refresh`. A commit succeeds only if no other writer has changed the table since, else CommitConflictError is raised and
nothing happened that `refresh` does not show. There are no locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.offsets import Offsets
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.plan.history.witnesses import Chain, Chains


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a new table is."""

    topic: str
    topic_id: str
    schema: pa.Schema
    partition_column: str | None = None


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """One of the last commits, for status output."""

    version: str
    timestamp_ms: int
    operation: str


@dataclass(frozen=True, slots=True)
class Vacuum:
    """What a vacuum removed."""

    removed: tuple[str, ...] = ()
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """A table without its newest rows: files that leave it, and files with those of their rows that stay."""

    removed: Sequence[DataFile]
    kept: Sequence[DataFile]
    before: Offsets
    after: Offsets
    witnesses: Chains


class TableFiles(Protocol):
    """The files of a table as of the last refresh, which others can replace. Methods raise LakeError."""

    @property
    def store(self) -> LakeStore:
        """Where its files are."""
        ...

    @property
    def spec(self) -> TableSpec:
        """What the table is now."""
        ...

    @property
    def stores_partition_column(self) -> bool:
        """Whether the column that the table is partitioned by is also in the files."""
        ...

    def refresh(self) -> None:
        """Look at the table as it is now."""
        ...

    def files(self) -> list[DataFile]:
        """Return the files that make up the table."""
        ...

    def replace(self, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
        """Put files with the same rows into the place of others, in one step. Raises CommitConflictError."""
        ...


class TableFormat(TableFiles, Protocol):
    """A table that follows a topic. Methods raise LakeError."""

    def committed_offsets(self) -> dict[int, int]:
        """Return the next offset of every partition."""
        ...

    def witnesses(self) -> dict[int, Chain]:
        """Return the witnesses of batches that were read, by partition; tables of earlier versions have none."""
        ...

    def commit(
        self, files: Sequence[DataFile], before: Offsets, after: Offsets, witnesses: Chains | None = None
    ) -> None:
        """Add files, move the offsets and set the witnesses in one step; without new ones the old ones stay.

        Raises CommitConflictError; afterwards `refresh` is due.
        """
        ...

    def rewind(self, change: Rewind) -> None:
        """Remove rows and move the offsets back in one step. Raises CommitConflictError; then `refresh` is due."""
        ...

    def evolve(self, schema: pa.Schema) -> None:
        """Add what the schema has beyond the table's. Raises CommitConflictError and SchemaConflictError."""
        ...

    def vacuum(self, grace_ms: int, now_ms: int) -> Vacuum:
        """Forget states of the table older than the grace and remove files that nothing younger needs."""
        ...

    def history(self, count: int) -> list[CommitInfo]:
        """Return the last commits, the youngest first."""
        ...
