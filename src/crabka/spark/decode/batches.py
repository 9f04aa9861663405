"""From bytes to the batches that have rows to give: whole, checked by CRC, in range, neither control nor aborted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from crabka.records.control import ControlRecordType, control_record_type
from crabka.records.errors import CorruptBatchError
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
)
from crabka.records.record import decode_records
from crabka.spark.decode.aborted import AbortedTransactions
from crabka.spark.decode.errors import CorruptBatch
from crabka.spark.decode.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    COUNT,
    CRC,
    HEADER_FIELDS,
    HEADER_SIZE,
    LAST_DELTA,
    MAGIC,
    POSITION,
    PRODUCER_ID,
    SIZE,
    Bytes,
    Numbers,
    Table,
    walk_headers,
)
from crabka.spark.decode.places import ANYWHERE, BatchBounds, Origin, RowRange

CorruptionListener = Callable[[CorruptBatch], None]

_TABLE_LINES: Final = 16_384
_NO_OFFSET: Final = (1 << 63) - 1


class BatchSource:
    """One pass over bytes that begin with a batch.

    `consumed` counts the bytes of whole batches so far, those left out included; `next_offset` lies after the last of
    them that is sound. What is corrupt is raised, or reported to the listener, if there is one, and left out; a batch
    with an impossible length is always raised, because nothing after it can be found.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        origin: Origin,
        rows: RowRange,
        aborted: AbortedTransactions | None,
        on_corrupt: CorruptionListener | None,
        *,
        bounds: BatchBounds = ANYWHERE,
    ) -> None:
        self.view = memoryview(data).cast("B")
        self.bytes: Bytes = np.frombuffer(self.view, np.uint8)
        self.origin = origin
        self.rows = rows
        self.consumed = 0
        self.next_offset = bounds.start_offset
        self._end_offset = bounds.end_offset
        self._aborted = aborted
        self._on_corrupt = on_corrupt

    def tables(self) -> Iterator[Table]:
        """Yield tables of headers (see `kernels`), one line for each batch with rows to give."""
        while True:
            table: Table = np.zeros((min(_TABLE_LINES, len(self.view) // HEADER_SIZE + 1), HEADER_FIELDS), np.int64)
            position, count, broken = map(int, walk_headers(self.bytes, self.consumed, table))
            if count:
                yield self._select(table[:count])
                self.consumed = position
            if broken:
                raise self._error(position, "the length is impossible", len(self.view) - position, skippable=False)
            if count < len(table):
                return

    def reject(self, line: Numbers, reason: str) -> None:
        """Raise or report the corruption of the batch in this line of a table."""
        error = self._error(int(line[POSITION]), reason, int(line[SIZE]), skippable=True)
        if self._on_corrupt is None:
            raise error
        self._on_corrupt(error)

    def _error(self, position: int, reason: str, size_bytes: int, *, skippable: bool) -> CorruptBatch:
        base_offset = int.from_bytes(self.view[position : position + 8], "big", signed=True)
        origin = replace(self.origin, position=self.origin.position + position)
        return CorruptBatch(origin, reason, base_offset=base_offset, size_bytes=size_bytes, skippable=skippable)

    def _select(self, table: Table) -> Table:
        first = table[:, BASE_OFFSET]
        last = first + table[:, LAST_DELTA]
        wanted = (last >= self.rows.start_offset) & (first < self.rows.end_offset)
        faults = self._faults(table, first, last)
        if self._aborted is not None:
            self._drop_aborted(self._aborted, table, wanted, faults)
        for index in sorted(faults):
            self.reject(table[index], faults[index])
            wanted[index] = False
        selected: Table = table[wanted & (table[:, COUNT] > 0) & ((table[:, ATTRIBUTES] & CONTROL_FLAG) == 0)]
        return selected

    def _faults(self, table: Table, first: Numbers, last: Numbers) -> dict[int, str]:
        """What is wrong with batches, also with those that seem out of range: a wrong offset makes them seem so."""
        faults = self._header_faults(table, first, last)
        following = np.append(first[1:], _NO_OFFSET)
        # Where a batch ends is what the checksum is for; the next one is proof that it ends before the range.
        in_doubt = (last >= self.rows.start_offset) | (following > self.rows.start_offset)
        for index in self._wrong_checksums(table, np.flatnonzero(in_doubt & (first < self.rows.end_offset))):
            faults.setdefault(index, "the checksum does not fit the bytes")
        sound = np.ones(len(table), np.bool_)
        sound[list(faults)] = False
        indexes = np.flatnonzero(sound)
        blamed = _out_of_order(first[indexes], last[indexes], self.next_offset, self._end_offset)
        for index in indexes[blamed].tolist():
            faults[index] = self._contradiction(index, first, last)
        kept = last[indexes[~blamed]]
        self.next_offset = int(kept[-1]) + 1 if len(kept) else self.next_offset
        return faults

    def _header_faults(self, table: Table, first: Numbers, last: Numbers) -> dict[int, str]:
        faults: dict[int, str] = {}
        for index in np.flatnonzero(table[:, MAGIC] != MAGIC_V2).tolist():
            faults[index] = f"record format (magic) {table[index, MAGIC]} is not supported, only {MAGIC_V2} is"
        for index in np.flatnonzero((first < self.next_offset) | (last < first)).tolist():
            faults.setdefault(
                index, f"offsets {first[index]} to {last[index]} cannot follow offset {self.next_offset - 1}"
            )
        for index in np.flatnonzero(last >= self._end_offset).tolist():
            faults.setdefault(
                index, f"offsets {first[index]} to {last[index]} are not before {self._end_offset}, the end"
            )
        for index in np.flatnonzero(table[:, COUNT] < 0).tolist():
            faults.setdefault(index, f"there cannot be {table[index, COUNT]} records")
        return faults

    def _contradiction(self, index: int, first: Numbers, last: Numbers) -> str:
        offsets = f"offsets {first[index]} to {last[index]}"
        before = last[index - 1] if index else self.next_offset - 1
        if first[index] <= before or index + 1 == len(first):
            return f"{offsets} cannot follow offset {before}"
        return f"{offsets} cannot come before offset {first[index + 1]}"

    def _wrong_checksums(self, table: Table, indexes: Numbers) -> list[int]:
        view = self.view
        chosen = table[indexes]
        starts = (chosen[:, POSITION] + ATTRIBUTES_POSITION).tolist()
        ends = (chosen[:, POSITION] + chosen[:, SIZE]).tolist()
        checksums = [crc32c(view[start:end]) for start, end in zip(starts, ends, strict=True)]
        wrong: list[int] = indexes[chosen[:, CRC] != np.array(checksums, np.int64)].tolist()
        return wrong

    def _drop_aborted(
        self, aborted: AbortedTransactions, table: Table, wanted: npt.NDArray[np.bool_], faults: dict[int, str]
    ) -> None:
        transactional = (table[:, ATTRIBUTES] & TRANSACTIONAL_FLAG) != 0
        concerned = np.isin(table[:, PRODUCER_ID], np.array(list(aborted.producer_ids), np.int64))
        for index in np.flatnonzero(transactional & concerned).tolist():
            producer_id, base_offset = int(table[index, PRODUCER_ID]), int(table[index, BASE_OFFSET])
            if not table[index, ATTRIBUTES] & CONTROL_FLAG:
                wanted[index] &= not aborted.covers(producer_id, base_offset)
            elif index not in faults and aborted.awaits_marker(producer_id):
                try:
                    if self._is_abort_marker(table[index]):
                        aborted.end_at_marker(producer_id, base_offset)
                except CorruptBatchError as error:
                    faults[index] = error.message

    def _is_abort_marker(self, line: Numbers) -> bool:
        batch = self.view[line[POSITION] : line[POSITION] + line[SIZE]]
        return any(control_record_type(record) == ControlRecordType.ABORT for record in decode_records(batch))


def _out_of_order(first: Numbers, last: Numbers, start_offset: int, end_offset: int) -> npt.NDArray[np.bool_]:
    """Which batches contradict their neighbours.

    A wrong base offset does not fit on either side. So of two batches that overlap, the one that joins its other
    neighbour without a gap is believed; if compaction left gaps on both sides, neither is.
    """
    blamed = np.zeros(len(first), np.bool_)
    overlaps = first[1:] <= last[:-1]
    if not overlaps.any():
        return blamed
    joins_left = first == np.append(start_offset, last[:-1] + 1)
    joins_right = last + 1 == np.append(first[1:], end_offset)
    blamed[:-1] = overlaps & ~joins_left[:-1]
    blamed[1:] |= overlaps & (joins_left[:-1] | ~joins_right[1:])
    kept = np.flatnonzero(~blamed)
    # Those between a batch and the next one that it overlaps may be gone by now.
    highest = np.maximum.accumulate(last[kept])
    blamed[kept[1:][first[kept[1:]] <= highest[:-1]]] = True
    return blamed
