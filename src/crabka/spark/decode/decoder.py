"""The decoder: stored bytes in, Arrow batches out.

Only the wanted columns are decoded: with topic, partition and offset alone, batches without gaps are not even
decompressed. Rows are those of the wanted offsets; control batches give none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from crabka.records.header import LOG_APPEND_TIME_FLAG
from crabka.records.record import DEFAULT_MAX_DECOMPRESSED_BYTES
from crabka.spark.decode.aborted import AbortedTransactions
from crabka.spark.decode.batches import BatchSource, CorruptionListener
from crabka.spark.decode.columns import (
    ConstantColumns,
    binary_column,
    headers_column,
    int32_column,
    int64_column,
    timestamp_column,
)
from crabka.spark.decode.groups import Group, GroupMaker
from crabka.spark.decode.kernels import (
    ATTRIBUTES,
    BATCH_COUNT,
    BATCH_ROWS,
    DONE,
    FULL,
    LIMIT_BATCH,
    LIMIT_END,
    LIMIT_ROW,
    LIMIT_START,
    LIMIT_WANT,
    LIMITS,
    REASONS,
    RECORD_HEADERS_MAX,
    ROW_FIELDS,
    ROW_HEADERS,
    ROW_HEADERS_AT,
    ROW_KEY_AT,
    ROW_KEY_SIZE,
    ROW_MICROS,
    ROW_OFFSET,
    ROW_SIZE,
    ROW_VALUE_AT,
    ROW_VALUE_SIZE,
    WANT_HEADERS,
    WANT_KEYS,
    WANT_TIMES,
    WANT_VALUES,
    Bytes,
    Numbers,
    Table,
    walk_records,
)
from crabka.spark.decode.places import ANYWHERE, BatchBounds, Origin, RowRange
from crabka.spark.decode.schema import arrow_schema

DEFAULT_MAX_ROWS: Final = 65_536
DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024

_BINARY_MAX_BYTES: Final = 1 << 30
_WANTS: Final = {"timestamp": WANT_TIMES, "key": WANT_KEYS, "value": WANT_VALUES, "headers": WANT_HEADERS}


class BatchDecoder:
    """Decodes one piece of data after the other; memory is used again, so one piece at a time.

    An Arrow batch has at most `max_rows` rows, and at most `max_bytes` of records unless a single one is larger. A
    batch that needs more than `max_decompressed_bytes` counts as corrupt. Corrupt batches are raised as CorruptBatch;
    with `on_corrupt` they are handed to it and left out, but for those whose end cannot be found.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        on_corrupt: CorruptionListener | None = None,
    ) -> None:
        if max_rows < 1 or not 1 <= max_bytes <= _BINARY_MAX_BYTES:
            raise ValueError(f"rows ({max_rows}) and bytes ({max_bytes}) of a batch must be positive, and below 1 GiB")
        self.schema = arrow_schema(columns)
        # Of the data of the last `decode`: bytes of whole batches, and the offset after the last sound one of them.
        self.consumed = 0
        self.next_offset = 0
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._on_corrupt = on_corrupt
        self._want = sum(_WANTS.get(name, 0) for name in columns)
        self._groups = GroupMaker(
            self._want, max_rows=max_rows, max_bytes=max_bytes, max_decompressed_bytes=max_decompressed_bytes
        )
        self._constants = ConstantColumns()
        self._scratch: Table = np.empty((ROW_FIELDS, 0), np.int64)

    def decode(
        self,
        data: bytes | memoryview,
        origin: Origin,
        rows: RowRange,
        aborted: AbortedTransactions | None = None,
        *,
        bounds: BatchBounds = ANYWHERE,
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of the data, which begin with a batch; without `aborted` those of aborted transactions, too.

        A last batch that is not there as a whole is left. Headers and checksums are checked at once, so that
        `consumed` and `next_offset` can be relied on before the first row is made. Raises CorruptBatch, and so does
        the iteration.
        """
        self.consumed, self.next_offset = 0, bounds.start_offset
        source = BatchSource(data, origin, rows, aborted, self._on_corrupt, bounds=bounds)
        tables = list(source.tables())
        self.consumed, self.next_offset = source.consumed, source.next_offset
        return self._rows(source, tables)

    def _rows(self, source: BatchSource, tables: Sequence[Table]) -> Iterator[pa.RecordBatch]:
        for table in tables:
            for lines in self._groups.pieces(source, table):
                following = 0
                while following < len(lines):
                    group, following = self._groups.next_group(source, lines, following)
                    yield from self._rows_of(group, source)

    def _rows_of(self, group: Group, source: BatchSource) -> Iterator[pa.RecordBatch]:
        types = group.headers[:, ATTRIBUTES] & LOG_APPEND_TIME_FLAG != 0
        for rows in self._walk(group, source):
            mixed = np.repeat(types, group.batches[:, BATCH_ROWS]) if types.any() and not types.all() else None
            start = 0
            for end in self._cuts(rows):
                kinds = int(types[0]) if mixed is None else mixed[start:end].astype(np.int64)
                yield self._record_batch(group, rows[:, start:end], source.origin, kinds)
                start = end

    def _walk(self, group: Group, source: BatchSource) -> Iterator[Table]:
        """Yield tables of the rows (see `kernels`) of all sound batches of the group, each valid until the next."""
        count = int(group.batches[:, BATCH_COUNT].sum())
        if self._scratch.shape[1] < min(count, self._max_rows):
            self._scratch = np.empty((ROW_FIELDS, min(count, self._max_rows)), np.int64)
        limits: Numbers = np.zeros(LIMITS, np.int64)
        limits[LIMIT_START], limits[LIMIT_END] = source.rows.start_offset, source.rows.end_offset
        limits[LIMIT_WANT] = self._want
        if count > self._max_rows:
            yield from self._walk_long(group, source, limits)
        else:
            yield self._walk_together(group, source, limits)

    def _walk_together(self, group: Group, source: BatchSource, limits: Numbers) -> Table:
        while True:
            code, index, count = walk_records(group.data, group.batches, limits, self._scratch)
            if code == DONE:
                return self._scratch[:, :count]
            source.reject(group.headers[index], REASONS[int(code)])
            limits[LIMIT_BATCH], limits[LIMIT_ROW] = index + 1, count

    def _walk_long(self, group: Group, source: BatchSource, limits: Numbers) -> Iterator[Table]:
        """Yield the rows of the one batch of the group in parts, because records may be smaller than what is noted.

        A broken batch gives no rows at all, so all of it is walked before the first part is given.
        """
        for code, _ in self._parts(group.data, group.batches.copy(), limits):
            if code not in (DONE, FULL):
                source.reject(group.headers[0], REASONS[code])
                return
        for _, count in self._parts(group.data, group.batches, limits):
            yield self._scratch[:, :count]

    def _parts(self, data: Bytes, batches: Table, limits: Numbers) -> Iterator[tuple[int, int]]:
        """Fill the scratch until all is read; yields (how a walk ended, number of rows)."""
        code = FULL
        while code == FULL:
            code, _, count = map(int, walk_records(data, batches, limits, self._scratch))
            yield code, count

    def _cuts(self, rows: Table) -> Iterator[int]:
        """Yield where the rows are to be cut, so that no part has too many rows, bytes or headers."""
        limited = [(rows[ROW_SIZE].cumsum(), self._max_bytes)]
        if self._want & WANT_HEADERS:
            limited.append((rows[ROW_HEADERS].cumsum(), RECORD_HEADERS_MAX))
        start = 0
        while start < rows.shape[1]:
            fitting = min(_fitting(ends, start, most) for ends, most in limited)
            start = min(max(fitting, start + 1), start + self._max_rows)
            yield start

    def _record_batch(self, group: Group, rows: Table, origin: Origin, kinds: int | Numbers) -> pa.RecordBatch:
        columns = [self._column(name, group, rows, origin, kinds) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, name: str, group: Group, rows: Table, origin: Origin, kinds: int | Numbers) -> pa.Array:
        count = rows.shape[1]
        match name:
            case "key":
                return binary_column(group.data, rows[ROW_KEY_AT], rows[ROW_KEY_SIZE], pa.binary())
            case "value":
                return binary_column(group.data, rows[ROW_VALUE_AT], rows[ROW_VALUE_SIZE], pa.binary())
            case "topic":
                return self._constants.column(origin.topic, pa.string(), count)
            case "partition":
                return self._constants.column(origin.partition, pa.int32(), count)
            case "offset":
                return int64_column(rows[ROW_OFFSET])
            case "timestamp":
                return timestamp_column(rows[ROW_MICROS])
            case "timestampType":
                if isinstance(kinds, int):
                    return self._constants.column(kinds, pa.int32(), count)
                return int32_column(kinds)
            case _:
                return headers_column(group.data, rows[ROW_HEADERS_AT], rows[ROW_HEADERS])


def _fitting(ends: Numbers, start: int, most: int) -> int:
    """The row after the last that fits, where rows from `start` on may have `most` together."""
    before = int(ends[start - 1]) if start else 0
    return int(np.searchsorted(ends, before + most, "right"))
