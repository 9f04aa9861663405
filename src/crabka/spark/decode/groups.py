"""Runs of batches whose records lie uncompressed in one buffer, ready to be walked together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from crabka.records.errors import CorruptBatchError
from crabka.records.header import CODEC_MASK, LOG_APPEND_TIME_FLAG
from crabka.records.record import MIN_RECORD_BYTES
from crabka.spark.decode.batches import BatchSource
from crabka.spark.decode.codecs import Arena
from crabka.spark.decode.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_APPEND_TIME,
    BATCH_COUNT,
    BATCH_END,
    BATCH_FIELDS,
    BATCH_LAST_DELTA,
    BATCH_OFFSET,
    BATCH_START,
    BATCH_TIMESTAMP,
    COUNT,
    HEADER_SIZE,
    LAST_DELTA,
    MAX_TIMESTAMP,
    POSITION,
    SIZE,
    WANT_TIMES,
    Bytes,
    Numbers,
    Table,
)

_UNREAD: Final = -1


class Group(NamedTuple):
    """Batches to walk together: `batches` says where their records lie in `data`, `headers` has their headers."""

    data: Bytes
    batches: Table
    headers: Table
    size_bytes: int  # of all records sections


class GroupMaker:
    """Cuts tables of headers into groups of at most so many rows and bytes; a batch is never cut."""

    def __init__(self, want: int, *, max_rows: int, max_bytes: int, max_decompressed_bytes: int) -> None:
        self._want = want
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_decompressed_bytes = max(max_bytes, max_decompressed_bytes)
        self._arena = Arena(max_bytes, max_decompressed_bytes)

    def next_group(self, source: BatchSource, table: Table, start: int) -> tuple[Group, int]:
        """Return the group that begins with line `start`, and the line after it.

        The group is valid until the next call. Batches that cannot be decompressed are rejected at the source.
        """
        self._arena.clear()
        lines = table[start : self._end_of_group(table, start)]
        batches = self._batch_table(lines)
        needed = batches[:, BATCH_START] != _UNREAD
        if not np.any(lines[needed, ATTRIBUTES] & CODEC_MASK):
            data, end, kept = source.bytes, len(lines), np.ones(len(lines), np.bool_)
        else:
            end, kept = self._decompress(source, lines, batches, needed)
            data = self._arena.content
        sizes = batches[:, BATCH_END] - batches[:, BATCH_START]
        overfull = needed & kept & (batches[:, BATCH_COUNT] > sizes // MIN_RECORD_BYTES)
        for index in np.flatnonzero(overfull[:end]).tolist():
            source.reject(lines[index], _overfull_reason(lines[index], int(sizes[index])))
        chosen = (kept & ~overfull)[:end]
        size_bytes = int(sizes[:end][chosen & needed[:end]].sum())
        return Group(data, batches[:end][chosen], lines[:end][chosen], size_bytes), start + end

    def pieces(self, source: BatchSource, table: Table) -> Iterator[Table]:
        """Yield the lines of the table; a batch that needs no look inside comes as lines of `max_rows` offsets.

        Nothing but the header says its count, so that memory must not follow it: each such line is a table of
        its own, made when it is asked for. Batches that cannot hold their records are rejected at the source.
        """
        table = self._without_overfull(source, table)
        start = 0
        for index in np.flatnonzero(self._unread(table) & (table[:, COUNT] > self._max_rows)).tolist():
            if index > start:
                yield table[start:index]
            yield from self._parts(table[index])
            start = index + 1
        if start < len(table):
            yield table[start:]

    def _parts(self, line: Numbers) -> Iterator[Table]:
        count = int(line[COUNT])
        for done in range(0, count, self._max_rows):
            part = line.reshape(1, -1).copy()
            part[0, BASE_OFFSET] += done
            part[0, COUNT] = min(count - done, self._max_rows)
            part[0, LAST_DELTA] = part[0, COUNT] - 1
            yield part

    def _without_overfull(self, source: BatchSource, table: Table) -> Table:
        """Reject the batches with a count that contradicts their size, as far as it is known without a look inside."""
        compressed = (table[:, ATTRIBUTES] & CODEC_MASK) != 0
        sizes = np.where(compressed, self._max_decompressed_bytes, table[:, SIZE] - HEADER_SIZE)
        overfull = table[:, COUNT] > sizes // MIN_RECORD_BYTES
        for index in np.flatnonzero(overfull).tolist():
            source.reject(table[index], _overfull_reason(table[index], int(sizes[index])))
        return table[~overfull] if overfull.any() else table

    def _unread(self, table: Table) -> npt.NDArray[np.bool_]:
        """Which batches give all that is wanted without a look at their records."""
        if self._want & ~WANT_TIMES:
            return np.zeros(len(table), np.bool_)
        # Compaction leaves gaps; then only the records know their offsets.
        contiguous: npt.NDArray[np.bool_] = table[:, COUNT] == table[:, LAST_DELTA] + 1
        if self._want & WANT_TIMES:
            contiguous &= (table[:, ATTRIBUTES] & LOG_APPEND_TIME_FLAG) != 0
        return contiguous

    def _end_of_group(self, table: Table, start: int) -> int:
        rows = table[start:, COUNT].cumsum()
        sizes = table[start:, SIZE].cumsum()
        fitting = min(np.searchsorted(rows, self._max_rows, "right"), np.searchsorted(sizes, self._max_bytes, "right"))
        return start + max(1, int(fitting))

    def _batch_table(self, lines: Table) -> Table:
        batches: Table = np.zeros((len(lines), BATCH_FIELDS), np.int64)
        append_time = (lines[:, ATTRIBUTES] & LOG_APPEND_TIME_FLAG) != 0
        batches[:, BATCH_START] = np.where(self._unread(lines), _UNREAD, lines[:, POSITION] + HEADER_SIZE)
        batches[:, BATCH_END] = lines[:, POSITION] + lines[:, SIZE]
        batches[:, BATCH_OFFSET] = lines[:, BASE_OFFSET]
        batches[:, BATCH_LAST_DELTA] = lines[:, LAST_DELTA]
        batches[:, BATCH_COUNT] = lines[:, COUNT]
        batches[:, BATCH_TIMESTAMP] = np.where(append_time, lines[:, MAX_TIMESTAMP], lines[:, BASE_TIMESTAMP])
        batches[:, BATCH_APPEND_TIME] = append_time
        return batches

    def _decompress(
        self, source: BatchSource, lines: Table, batches: Table, needed: npt.NDArray[np.bool_]
    ) -> tuple[int, npt.NDArray[np.bool_]]:
        """Bring the needed records into the arena; returns (line that did not fit any more, which are readable)."""
        kept = np.ones(len(lines), np.bool_)
        indexes = np.flatnonzero(needed)
        codecs = (lines[indexes, ATTRIBUTES] & CODEC_MASK).tolist()
        spans = batches[indexes, BATCH_START : BATCH_END + 1].tolist()
        for index, codec, (start, end) in zip(indexes.tolist(), codecs, spans, strict=True):
            try:
                span = self._arena.add(codec, source.view[start:end])
            except CorruptBatchError as error:
                source.reject(lines[index], error.message)
                kept[index] = False
            else:
                if span is None:
                    return index, kept
                batches[index, BATCH_START], batches[index, BATCH_END] = span
        return len(lines), kept


def _overfull_reason(line: Numbers, size_bytes: int) -> str:
    return f"{line[COUNT]} records cannot fit in {size_bytes} bytes"
