"""Runs of batches whose records lie uncompressed in one buffer, ready to be walked together."""

from __future__ import annotations

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
    Table,
)

_UNREAD: Final = -1


class Group(NamedTuple):
    """Batches to walk together: `batches` tells where their records lie in `data`, `headers` has their headers."""

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
        self._arena = Arena(max_bytes, max_decompressed_bytes)

    def next_group(self, source: BatchSource, table: Table, start: int) -> tuple[Group, int]:
        """Return the group that begins with line `start`, and the line behind it.

        The group is valid until the next call. Batches that cannot be decompressed are rejected at the source.
        """
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
            source.reject(lines[index], f"{lines[index, COUNT]} records cannot fit in {sizes[index]} bytes")
        chosen = (kept & ~overfull)[:end]
        size_bytes = int(sizes[:end][chosen & needed[:end]].sum())
        return Group(data, batches[:end][chosen], lines[:end][chosen], size_bytes), start + end

    def split_long(self, table: Table) -> Table:
        """Return the table with batches that need no look inside cut into lines of `max_rows` offsets.

        Nothing but the header vouches for their count, so that memory must not follow it.
        """
        long = self._unread(table) & (table[:, COUNT] > self._max_rows)
        if not long.any():
            return table
        parts = np.where(long, -(-table[:, COUNT] // self._max_rows), 1)
        lines = np.repeat(table, parts, axis=0)
        part = np.arange(len(lines)) - np.repeat(parts.cumsum() - parts, parts)
        cut = np.repeat(long, parts)
        done = part[cut] * self._max_rows
        lines[cut, BASE_OFFSET] += done
        lines[cut, COUNT] = np.minimum(lines[cut, COUNT] - done, self._max_rows)
        lines[cut, LAST_DELTA] = lines[cut, COUNT] - 1
        return lines

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
        self._arena.clear()
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
