"""Checks index objects against the batches of their segment, which pass by once.

A follower is built from the bytes of an index, sees every batch in order and reports what does not fit. What is allowed
is what Kafka of any version writes: an offset index entry may name the last batch of a group that was appended
together, a time index entry any offset of the batch with the timestamp.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, Protocol

from crabka.errors import CorruptDataError
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import TimeIndex
from crabka.formats.transaction_index import AbortedTransaction, decode_aborted
from crabka.records.control import ControlRecordType, control_record_type
from crabka.records.errors import CorruptBatchError
from crabka.records.header import BatchHeader
from crabka.records.record import decode_records
from crabka.remote.scrub.batches import WalkedBatch

Report = Callable[[str], None]

_UNINDEXED_ENTRIES: Final = 10
"""Clean stops after which no entry was due; who has more has appended little between them."""
_INTERVAL_BYTES: Final = 4 << 10
"""What lies between two entries at least, unless the index interval is set lower than by default."""
_UNINDEXED_BYTES: Final = 1 << 20
"""What may lie between an offset index entry and a clean stop: what a follower appends at once, by default 1 MiB."""


class IndexFollower(Protocol):
    """Compares an index with batches."""

    def see(self, batch: WalkedBatch) -> None:
        """Compare with the next batch."""
        ...

    def finish(self) -> None:
        """Compare with the end of the segment."""
        ...


class OffsetIndexFollower:
    """Follows `.index`: relative offset and position, both rising, each a batch border.

    Appending adds to both indexes at once, so that `time_index` shows entries that were lost from the end of this one:
    those of the time index have none after them. A few are no fault: a clean stop of the broker and the roll of the
    segment add to the time index alone, and a truncation may take more from the offset index.
    """

    def __init__(self, data: bytes, base_offset: int, report: Report, time_index: bytes = b"") -> None:
        self._report = report
        try:
            index = OffsetIndex.decode(base_offset, data)
        except CorruptDataError as error:
            report(error.message)
            index = OffsetIndex(base_offset)
        self._entries = deque(index.entries())
        self._awaited: deque[int] = deque()
        self._last_position = index.last_position
        self._last_indexed = index.last_offset
        self._indexed_end = 0
        # The index interval may be set to more than followers append at once.
        self._largest_step = max((b - a for a, b in pairwise(index.positions)), default=0)
        self._unindexed = deque(
            offset for offset in _time_index_offsets(time_index, base_offset) if offset > self._last_indexed
        )
        self._unindexed_count = 0
        self._looks_cut = False

    def see(self, batch: WalkedBatch) -> None:
        """Compare with the next batch."""
        header = batch.header
        while self._entries and self._entries[0][1] <= batch.position:
            offset, position = self._entries.popleft()
            if position < batch.position:
                self._report(f"the entry of offset {offset} points to {position}, where no batch begins")
            elif offset < header.base_offset:
                self._report(f"the entry of offset {offset} points to {position}, after that offset")
            else:
                self._awaited.append(offset)
        last_offset = header.last_offset
        while self._awaited and self._awaited[0] <= last_offset:
            offset = self._awaited.popleft()
            if offset != last_offset:
                self._report(f"has an entry of offset {offset}, with which no batch ends")
        if last_offset <= self._last_indexed:
            self._indexed_end = batch.position + header.size_in_bytes
        while self._unindexed and self._unindexed[0] <= last_offset:
            self._unindexed.popleft()
            self._unindexed_count += 1
            is_many = self._unindexed_count > _UNINDEXED_ENTRIES
            step = _INTERVAL_BYTES if is_many else max(_UNINDEXED_BYTES, self._largest_step)
            self._looks_cut |= batch.position - self._indexed_end > self._unindexed_count * step

    def finish(self) -> None:
        """Compare with the end of the segment."""
        if self._looks_cut:
            self._report(
                f"ends at position {self._last_position}, too early: "
                f"the time index has {self._unindexed_count} entries of what follows"
            )
        for offset in self._awaited:
            self._report(f"has an entry of offset {offset}, with which no batch ends")
        for offset, position in self._entries:
            self._report(f"the entry of offset {offset} points to {position}, after the last batch")


class TimeIndexFollower:
    """Follows `.timeindex`: timestamp and relative offset of a batch that has it; the last is the largest of all."""

    def __init__(self, data: bytes, base_offset: int, report: Report) -> None:
        self._report = report
        try:
            entries = TimeIndex.decode(base_offset, data).entries()
        except CorruptDataError as error:
            report(error.message)
            entries = []
        self._entries = deque(entries)
        self._last_timestamp = entries[-1].timestamp if entries else 0
        self._largest = 0

    def see(self, batch: WalkedBatch) -> None:
        """Compare with the next batch."""
        header = batch.header
        self._largest = max(self._largest, header.max_timestamp)
        while self._entries and self._entries[0][1] <= header.last_offset:
            timestamp, offset = self._entries.popleft()
            if timestamp != header.max_timestamp or offset < header.base_offset:
                self._report(f"says {timestamp} for offset {offset}, the batch there says {header.max_timestamp}")

    def finish(self) -> None:
        """Compare with the end of the segment."""
        for timestamp, offset in self._entries:
            self._report(f"says {timestamp} for offset {offset}, which lies after the last batch")
        if self._last_timestamp != self._largest:
            self._report(f"ends with {self._last_timestamp}, the largest timestamp of the segment is {self._largest}")


class TransactionIndexFollower:
    """Follows `.txnindex`: every abort of a transaction with records, named by its marker.

    `open_at_start` has the first offsets of the transactions that earlier segments left open, by producer; None if
    they are not known. Then whatever lies before the segment is believed. From a corrupt batch on nothing is compared:
    it may have begun or ended any transaction.
    """

    def __init__(
        self, data: bytes, base_offset: int, report: Report, open_at_start: Mapping[int, int] | None = None
    ) -> None:
        self._base_offset = base_offset
        self._report = report
        try:
            entries = decode_aborted(data)
        except CorruptDataError as error:
            report(error.message)
            entries = []
        if any(entry.first_offset > entry.last_offset for entry in entries):
            report("it has an entry that ends before its start")
            entries = []
        self._entries = deque(entries)
        self._start_is_known = open_at_start is not None
        self._open: dict[int, int] = dict(open_at_start or {})
        # Entries whose last stable offset lies after their marker, until the next transaction explains it.
        self._unexplained: list[AbortedTransaction] = []
        self._is_lost = False

    def see(self, batch: WalkedBatch) -> None:
        """Compare with the next batch."""
        self._is_lost |= not batch.crc_valid
        if self._is_lost:
            return
        header = batch.header
        is_abort = header.is_control and _is_abort(batch)
        found = False
        while self._entries and self._entries[0].last_offset <= header.last_offset:
            entry = self._entries.popleft()
            if not is_abort or entry.producer_id != header.producer_id or entry.last_offset < header.base_offset:
                self._report(f"has an abort of producer {entry.producer_id} at {entry.last_offset}, the log has not")
            else:
                found = True
                self._compare(entry)
        if is_abort and header.producer_id in self._open and not found:
            self._report(f"lacks the abort of producer {header.producer_id} at {header.base_offset}")
        if header.is_control:
            self._open.pop(header.producer_id, None)
        elif header.is_transactional and header.producer_id not in self._open:
            self._open[header.producer_id] = header.base_offset
            self._explain(header)

    def finish(self) -> None:
        """Compare with the end of the segment."""
        if self._is_lost:
            return
        for entry in self._entries:
            self._report(f"has an abort of producer {entry.producer_id} at {entry.last_offset}, after the last batch")
        for entry in self._unexplained:
            self._report_stable(entry, entry.last_offset + 1)

    def _compare(self, entry: AbortedTransaction) -> None:
        """Compare an entry with the transactions that are open where its marker lies."""
        first = self._open.get(entry.producer_id)
        if entry.first_offset != first and not self._may_be_older(entry.first_offset):
            said = "none" if first is None else f"one from {first}"
            self._report(
                f"says that the transaction of the abort at {entry.last_offset} begins at "
                f"{entry.first_offset}, the log has {said}"
            )
        others = [start for producer_id, start in self._open.items() if producer_id != entry.producer_id]
        stable = min(others, default=entry.last_offset + 1)
        if entry.last_stable_offset == stable or self._may_be_older(entry.last_stable_offset):
            return
        if not others and entry.last_stable_offset > stable:
            self._unexplained.append(entry)
        else:
            self._report_stable(entry, stable)

    def _explain(self, header: BatchHeader) -> None:
        """Compare entries with the next transaction of another producer.

        A follower appends many batches at once, and Kafka writes the entries after the transactions of all of them
        have begun: without an older one the stable end is then the next beginning, not the end of the marker.
        """
        waiting, self._unexplained = self._unexplained, []
        for entry in waiting:
            if entry.producer_id == header.producer_id:
                self._unexplained.append(entry)
            elif entry.last_stable_offset != header.base_offset:
                self._report_stable(entry, entry.last_offset + 1)

    def _may_be_older(self, offset: int) -> bool:
        return not self._start_is_known and 0 <= offset < self._base_offset

    def _report_stable(self, entry: AbortedTransaction, stable: int) -> None:
        said = f"says {entry.last_stable_offset} for the last stable offset after the abort at {entry.last_offset}"
        self._report(f"{said}, the log {stable}")


def _time_index_offsets(data: bytes, base_offset: int) -> list[int]:
    """Return the offsets of a time index but the last, which a roll adds; none if it is damaged: `TimeIndexFollower`
    reports that."""
    try:
        return [entry.offset for entry in TimeIndex.decode(base_offset, data).entries()[:-1]]
    except CorruptDataError:
        return []


def _is_abort(batch: WalkedBatch) -> bool:
    """Return whether a control batch ends a transaction with an abort."""
    try:
        return control_record_type(decode_records(batch.head, batch.header)[0]) is ControlRecordType.ABORT
    except (CorruptBatchError, IndexError):
        return False
