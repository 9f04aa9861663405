"""Writes a table that `crabka lake sync` made with raw values back to a topic, exactly once.

Tasks read the files of the table themselves, with the code that wrote them: Spark needs no library for the store or the
format. A first job finds out which partitions of the topic a file has, since compaction mixes them; a second one has a
task for each partition, which merges its files by offset.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import ConfigError
from crabka.spark.jobs.replay import (
    RESULT_SCHEMA,
    ReplayedPartition,
    check_target,
    replayed,
    result_batch,
    shared_rate,
    write_rows,
)
from crabka.spark.jobs.replay_writer import (
    ReplayRow,
    ReplayTarget,
    ReplayWriter,
    SourceIdentity,
    rows_of_batch,
)
from crabka.spark.session.row_tasks import ArrowTask, collect_rows, for_each_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
    from crabka.spark.lake.formats.store import LakeStore
    from crabka.spark.lake.formats.table import TableFormat

_PART_SCHEMA: Final = "partition int, part string"
_CHUNK_ROWS: Final = 1_000
_MAX_TASKS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """The rows of one partition in a file: least and greatest offset, and whether the rows are in order.

    `constant` is the value of the column by which the table is partitioned, which may be in no file.
    """

    path: str
    least: int
    greatest: int
    is_sorted: bool
    constant: str | None


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads rows of a table in tasks; `partition_column` is the one whose values the files may lack."""

    store: LakeStore
    partition_column: str | None

    def parts(self, path: str, constant: str | None) -> dict[int, FilePart]:
        """Return what a file has, by partition."""
        from crabka.spark.lake.values.schemas import OFFSET, PARTITION

        least: dict[int, int] = {}
        last: dict[int, int] = {}
        greatest: dict[int, int] = {}
        unsorted: set[int] = set()
        for batch in self._batches(path, constant, [PARTITION, OFFSET]):
            for partition, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if offset < last.get(partition, -1):
                    unsorted.add(partition)
                last[partition] = offset
                least[partition] = min(least.get(partition, offset), offset)
                greatest[partition] = max(greatest.get(partition, offset), offset)
        return {
            partition: FilePart(
                path=path,
                least=least[partition],
                greatest=greatest[partition],
                is_sorted=partition not in unsorted,
                constant=constant,
            )
            for partition in least
        }

    def rows(self, partition: int, part: FilePart, start: int = 0) -> Iterator[ReplayRow]:
        """Yield the rows of a partition that a file has, by offset: all from `start` on, and perhaps earlier ones."""
        found = chain.from_iterable(self._rows(partition, part, start))
        return found if part.is_sorted else iter(sorted(found, key=lambda row: row.offset))

    def _rows(self, partition: int, part: FilePart, start: int) -> Iterator[list[ReplayRow]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        from crabka.spark.lake.formats.data_files import ColumnRange
        from crabka.spark.lake.values.schemas import OFFSET, PARTITION, RAW_VALUE, TIMESTAMP

        names = {
            OFFSET: "offset",
            "kafka_key": "key",
            RAW_VALUE: "value",
            "kafka_headers": "headers",
            TIMESTAMP: "timestamp",
        }
        within = {PARTITION: ColumnRange(partition, partition), OFFSET: ColumnRange(start, part.greatest)}
        for batch in self._batches(part.path, part.constant, [PARTITION, *names], within):
            mine = batch.filter(pc.equal(batch.column(0), pa.scalar(partition, pa.int32())))
            yield rows_of_batch(pa.RecordBatch.from_arrays(mine.columns[1:], names=list(names.values())))

    def _batches(
        self, path: str, constant: str | None, names: list[str], within: Mapping[str, ColumnRange] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a file, with that of the partition column if the file lacks it."""
        import pyarrow as pa

        from crabka.spark.lake.formats.parquet_reading import read_batches
        from crabka.spark.lake.values.schemas import LOG_COLUMNS, RAW_VALUE_FIELD

        types = {field.name: field.type for field in (*LOG_COLUMNS, RAW_VALUE_FIELD)}
        for batch in read_batches(self.store, path, names, within=within):
            columns = []
            for name in names:
                if batch.schema.get_field_index(name) >= 0:
                    columns.append(batch.column(name).cast(types[name]))
                elif name == self.partition_column:
                    columns.append(pa.array([constant] * batch.num_rows, pa.string()).cast(types[name]))
                else:
                    columns.append(pa.nulls(batch.num_rows, types[name]))
            yield pa.RecordBatch.from_arrays(columns, names=names)


def replay_lake_table(
    spark: SparkSession, address: str, table_format: str, target: ReplayTarget, *, catalog: str | None = None
) -> list[ReplayedPartition]:
    """Replay a table that `crabka lake sync` made with raw values; `catalog` is that of an Iceberg table.

    Raises ConfigError, LakeError.
    """
    store, table = _open(address, table_format, catalog)
    spec = table.spec
    _require_raw_values(spec.schema)
    reader = TableReader(store, spec.partition_column)
    parts = _parts_of_files(spark, reader, table.files())
    has_progress = check_target(target, max(parts, default=0) + 1)
    if not parts:
        return []
    rows = [(partition, json.dumps([asdict(part) for part in found])) for partition, found in sorted(parts.items())]
    frame = spark.createDataFrame(rows, "partition int, parts string").repartition(len(rows))
    identity = SourceIdentity(spec.topic, spec.topic_id)
    target = shared_rate(target, len(rows))
    done = frame.mapInArrow(_replay_task(reader, target, identity), RESULT_SCHEMA)
    return replayed(done, target, has_progress=has_progress)


def in_offset_order(
    parts: Sequence[FilePart], rows_of: Callable[[FilePart], Iterator[ReplayRow]]
) -> Iterator[ReplayRow]:
    """Merge files that may overlap; one is opened when its first offset is due."""
    waiting = deque(sorted(parts, key=lambda part: part.least))
    heap: list[tuple[int, int, ReplayRow, Iterator[ReplayRow]]] = []
    opened = 0
    while waiting or heap:
        while waiting and (not heap or waiting[0].least <= heap[0][0]):
            opened += 1
            _push(heap, opened, rows_of(waiting.popleft()))
        if heap:
            _, number, row, rest = heappop(heap)
            yield row
            _push(heap, number, rest)


def _push(heap: list[tuple[int, int, ReplayRow, Iterator[ReplayRow]]], number: int, rows: Iterator[ReplayRow]) -> None:
    row = next(rows, None)
    if row is not None:
        heappush(heap, (row.offset, number, row, rows))


def _open(address: str, table_format: str, catalog: str | None) -> tuple[LakeStore, TableFormat]:
    from crabka.spark.lake.formats.tables import Lake

    place, question, parameters = address.partition("?")
    root, _, name = place.rstrip("/").rpartition("/")
    lake = Lake(f"{root or '/'}{question}{parameters}", table_format, lambda: 0, catalog)
    table = lake.open(name)
    if table is None:
        raise ConfigError(f"there is no {table_format} table at {address}")
    return lake.store(name), table


def _require_raw_values(schema: pa.Schema) -> None:
    import pyarrow as pa

    from crabka.spark.lake.values.schemas import LOG_COLUMNS, RAW_VALUE_FIELD

    for wanted in (*LOG_COLUMNS, RAW_VALUE_FIELD):
        if schema.get_field_index(wanted.name) < 0:
            raise ConfigError(f"the table has no column {wanted.name}: only tables of raw values can be replayed")
    found = schema.field(RAW_VALUE_FIELD.name).type
    if not (pa.types.is_binary(found) or pa.types.is_large_binary(found)):
        raise ConfigError(f"the column {RAW_VALUE_FIELD.name} is {found}: only tables of raw values can be replayed")


def _parts_of_files(spark: SparkSession, reader: TableReader, files: Sequence[DataFile]) -> dict[int, list[FilePart]]:
    if not files:
        return {}
    rows = [(file.path, file.partition_value) for file in files]
    frame = spark.createDataFrame(rows, "path string, constant string").repartition(min(len(rows), _MAX_TASKS))
    found: dict[int, list[FilePart]] = {}
    for row in collect_rows(frame.mapInArrow(_parts_task(reader), _PART_SCHEMA)):
        found.setdefault(row["partition"], []).append(FilePart(**json.loads(row["part"])))
    return found


def _parts_task(reader: TableReader) -> ArrowTask:
    def find(row: dict[str, Any]) -> pa.RecordBatch:
        import pyarrow as pa

        found = reader.parts(row["path"], row["constant"])
        texts = [json.dumps(asdict(part)) for part in found.values()]
        columns = [pa.array(list(found), pa.int32()), pa.array(texts, pa.string())]
        return pa.RecordBatch.from_arrays(columns, names=["partition", "part"])

    return for_each_row(find)


def _replay_task(reader: TableReader, target: ReplayTarget, identity: SourceIdentity) -> ArrowTask:
    def replay(row: dict[str, Any]) -> pa.RecordBatch:
        parts = [FilePart(**fields) for fields in json.loads(row["parts"])]
        with ReplayWriter(target, identity, row["partition"]) as writer:
            count = _replay_parts(reader, row["partition"], parts, writer, target)
            return result_batch(row["partition"], count, writer.next_offset)

    return for_each_row(replay)


def _replay_parts(
    reader: TableReader, partition: int, parts: Sequence[FilePart], writer: ReplayWriter, target: ReplayTarget
) -> int:
    rest = [part for part in parts if part.greatest >= writer.next_offset]
    merged = in_offset_order(rest, lambda part: reader.rows(partition, part, writer.next_offset))
    return write_rows(writer, _chunks(merged), target)


def _chunks(rows: Iterator[ReplayRow]) -> Iterator[list[ReplayRow]]:
    chunk: list[ReplayRow] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK_ROWS:
            yield chunk
            chunk = []
    yield chunk
