"""The job `lake rewind`: removes the rows of a log that was cut since, so that a sync can continue.

Partitions go back to the last offset up to which a witness proves that the log has what the table has, and not before
the log start, since what lies there could not be read again. Files with rows on both sides of that are written anew
without the later ones. Removing rows, moving offsets and forgetting witnesses is one commit of each table. Dead letters
are rewound first: after a crash in between the history of the table still differs, and the next run does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.data_files import ColumnRange, DataFile, file_name, partition_directory
from crabka.spark.lake.formats.offsets import Offsets
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.parquet_reading import read_batches
from crabka.spark.lake.formats.row_groups import row_groups
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import Rewind, TableFormat
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.syncing.dead_letters import SUFFIX, is_dead_letters
from crabka.spark.lake.syncing.topic_sync import read_positions
from crabka.spark.lake.values.rows import topic_partition_in
from crabka.spark.lake.values.schemas import OFFSET, PARTITION, conform
from crabka.spark.plan.history.divergence import Divergence, ReadPosition
from crabka.spark.plan.history.witnesses import Chain, Chains, cut_chain

_TRIES = 20
_MAX_OFFSET = (1 << 63) - 1


class RewindStep(StrEnum):
    """Points of a rewind; it may die at any of them, or between them."""

    COMPARED = "compared"
    DEAD_LETTERS_REWOUND = "dead letters rewound"
    WRITTEN = "written"
    REWOUND = "rewound"


class HistorySource(Protocol):
    """Compares logs with what was read of them."""

    def divergences(self, topic: str, positions: Mapping[int, ReadPosition]) -> tuple[str | None, list[Divergence]]:
        """Return the id of a topic, and the partitions whose logs no longer have what was read of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundPartition:
    """What a rewind did to a partition: it is read again from `rewound_to` on."""

    table: str
    partition: int
    position: int
    rewound_to: int
    # From where on, at the latest, the log was different.
    differs_from: int
    # Rows before this offset cannot be compared: the log no longer has them.
    log_start: int


def plan_rewind(lake: Lake, name: str, source: HistorySource) -> list[RewoundPartition]:
    """Return what `rewind_table` would do now. Raises what it raises."""
    return _rewound(name, _compare(_open(lake, name), name, source))


def rewind_table(
    lake: Lake, name: str, source: HistorySource, on_step: Callable[[RewindStep], None] = lambda _step: None
) -> list[RewoundPartition]:
    """Remove the rows of a table that its topic's log no longer has; does nothing if it has all of them.

    Raises LakeError for a table that is not there, or whose topic was created anew, and what sources raise.
    """
    for _attempt in range(_TRIES):
        table = _open(lake, name)
        divergences = _compare(table, name, source)
        on_step(RewindStep.COMPARED)
        if not divergences:
            return []
        points = {each.partition.partition: each.rewind_offset for each in divergences}
        try:
            _rewind_dead_letters(lake, name, table.spec.topic_id, points)
            on_step(RewindStep.DEAD_LETTERS_REWOUND)
            _rewind(table, lake.store(name), points, _proven(table, divergences), lambda: on_step(RewindStep.WRITTEN))
        except CommitConflictError:
            continue  # what another one committed may have moved the offsets
        on_step(RewindStep.REWOUND)
        return _rewound(name, divergences)
    raise LakeError(f"Others changed the table {name} {_TRIES} times while it was rewound")


def _open(lake: Lake, name: str) -> TableFormat:
    table = lake.open(name)
    if table is None:
        raise LakeError(f"There is no {lake.table_format} table {name} at {lake.root}")
    return table


def _rewound(name: str, divergences: Iterable[Divergence]) -> list[RewoundPartition]:
    return [
        RewoundPartition(
            table=name,
            partition=each.partition.partition,
            position=each.position,
            rewound_to=each.rewind_offset,
            differs_from=each.differs_offset,
            log_start=each.log_start_offset,
        )
        for each in divergences
    ]


def _compare(table: TableFormat, name: str, source: HistorySource) -> list[Divergence]:
    spec = table.spec
    if is_dead_letters(name, spec):
        raise LakeError(f"The table {name} has dead letters; they are rewound with the table that they belong to")
    topic_id, found = source.divergences(spec.topic, read_positions(table.committed_offsets(), table.witnesses()))
    if topic_id != spec.topic_id:
        raise LakeError(
            f"The topic {spec.topic} was created anew: the table {name} follows the topic with the id {spec.topic_id}, "
            f"the topic has {topic_id} now; a rewind does not help"
        )
    return found


def _rewind_dead_letters(lake: Lake, name: str, topic_id: str, points: Offsets) -> None:
    table = lake.open(name + SUFFIX)
    if table is None or not is_dead_letters(name + SUFFIX, table.spec) or table.spec.topic_id != topic_id:
        return
    before = table.committed_offsets()
    if any(offset > points.get(partition, offset) for partition, offset in before.items()):
        _rewind(table, lake.store(name + SUFFIX), points, {}, lambda: None)


def _proven(table: TableFormat, divergences: Iterable[Divergence]) -> dict[int, Chain]:
    """Return the witnesses of a table without those that the log contradicts, or no longer proves."""
    agreed = {each.partition.partition: each.agreed_offset for each in divergences}
    return {p: cut_chain(chain, agreed.get(p, _MAX_OFFSET)) for p, chain in table.witnesses().items()}


def _rewind(
    table: TableFormat, store: LakeStore, points: Offsets, witnesses: Chains, on_written: Callable[[], None]
) -> None:
    """Remove the rows from some offsets on. Raises CommitConflictError."""
    before = table.committed_offsets()
    removed: list[DataFile] = []
    kept: list[DataFile] = []
    for file in table.files():
        rows = _FileRows(table, store, file, points)
        if rows.are_affected():
            removed.append(file)
            kept += rows.write_those_that_stay()
    on_written()
    table.rewind(
        Rewind(
            removed=removed,
            kept=kept,
            before=before,
            after={partition: min(offset, points.get(partition, offset)) for partition, offset in before.items()},
            witnesses={partition: chain for partition, chain in witnesses.items() if chain},
        )
    )


class _FileRows:
    """The rows of one file, of which those from some offsets on are to go."""

    def __init__(self, table: TableFormat, store: LakeStore, file: DataFile, points: Offsets) -> None:
        spec = table.spec
        self._store = store
        self._file = file
        self._points = points
        self._column = spec.partition_column
        hidden = None if table.stores_partition_column else self._column
        self._schema = pa.schema([field for field in spec.schema if field.name != hidden])

    def are_affected(self) -> bool:
        """Return whether any row is to go."""
        least = min(self._points.values())
        if self._file.offsets is not None and self._file.offsets.greatest < least:
            return False
        columns = [name for name in (PARTITION, OFFSET) if name in self._schema.names]
        within = {OFFSET: ColumnRange(least, _MAX_OFFSET)}
        batches = read_batches(self._store, self._file.path, columns, within=within)
        return any(not pc.all(self._stay(batch), min_count=0).as_py() for batch in batches)

    def write_those_that_stay(self) -> list[DataFile]:
        """Write a new file with the rows that stay, if there are any, durably."""
        batches = read_batches(self._store, self._file.path)
        groups = row_groups(conform(batch.filter(self._stay(batch)), self._schema) for batch in batches)
        writer: ParquetFileWriter | None = None
        try:
            for rows in groups:
                if rows.num_rows:
                    writer = writer or self._writer(rows)
                    writer.write(rows)
            return [] if writer is None else [writer.close()]
        except BaseException:
            if writer is not None:
                writer.give_up()
            raise

    def _writer(self, rows: pa.Table) -> ParquetFileWriter:
        value = self._file.partition_value
        partition = topic_partition_in(rows, self._column, value)
        directory = partition_directory(self._column, value)
        path = file_name(directory, rows.column(OFFSET)[0].as_py(), partition, f"rewound-{uuid4()}")
        return ParquetFileWriter(self._store, path, self._schema, partition_value=value)

    def _stay(self, batch: pa.RecordBatch) -> pa.Array:
        """Return which rows lie before the offsets from which on they go."""
        mask = pa.repeat(pa.scalar(True), batch.num_rows)  # noqa: FBT003 - a value
        offsets = batch.column(OFFSET)
        # Delta's files do not have the column that their table is partitioned by.
        has_partition = batch.schema.get_field_index(PARTITION) >= 0
        for partition, point in self._points.items():
            is_later = pc.greater_equal(offsets, point)
            if has_partition:
                is_later = pc.and_(is_later, pc.equal(batch.column(PARTITION), partition))
            elif self._file.partition_value != str(partition):
                continue
            mask = pc.and_not(mask, is_later)
        return mask
