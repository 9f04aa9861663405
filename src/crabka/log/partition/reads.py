"""The reading side of a partition log: fetch plans, aborted transactions, offsets by time and epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError, OffsetInRemoteTierError, OperationError
from crabka.formats.leader_epochs import EpochEnd
from crabka.formats.transaction_index import AbortedTransaction, overlapping
from crabka.log.partition.decompression import search_limit
from crabka.log.partition.reader import EXACT, ReadSlice, empty_slice, plan_in_segment
from crabka.log.partition.state import LogState
from crabka.log.partition.timestamps import TimestampOffset, find_by_timestamp, find_max_timestamp
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.log.segment.segment import Segment

# Positions of recent log ends: a consumer at the tail asks for exactly these offsets next.
_MAX_TAIL_HINTS: Final = 16


class LogReads(LogState):
    """What consumers and followers ask of a log."""

    def read(
        self, start_offset: int, *, max_bytes: int, upper_offset: int | None = None, min_one_batch: bool = True
    ) -> ReadSlice:
        """Plan a read from the batch that holds `start_offset`; batches from `upper_offset` on are not returned.

        Ends with the segment; the next read goes on in the next one. The last batch may be cut off by `max_bytes`,
        as in Kafka. Raises OperationError (OFFSET_OUT_OF_RANGE) below the log start or above the log end, and its
        subclass OffsetInRemoteTierError for what a tiered log has in the remote tier only.
        """
        if self.is_damaged:
            return self._read_around(
                start_offset, max_bytes=max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch
            )
        end_offset = self.log_end_offset
        active = self._active
        if start_offset == end_offset:
            self._remember_tail(end_offset, active.size)
            return empty_slice(start_offset)
        if not self.log_start_offset <= start_offset < end_offset:
            raise self._out_of_range(start_offset)
        if upper_offset is not None and upper_offset <= start_offset:
            return empty_slice(start_offset)
        whole = upper_offset is None or upper_offset >= end_offset
        position = self._tail_hints.get(start_offset)
        if whole and position is not None:
            try:
                handle = active.handle()
            except OSError as error:
                raise self._storage_error(error) from error
            plan = ReadSlice(
                handle=handle,
                start_offset=start_offset,
                position=position,
                end=active.size,
                max_bytes=max_bytes,
                find_offset=EXACT,
                min_one_batch=min_one_batch,
                index=active.indexes().offsets,
            )
            if plan.length == active.size - position:
                self._remember_tail(end_offset, active.size)
            return plan
        upper = None if whole else upper_offset
        return self._plan_by_index(start_offset, max_bytes=max_bytes, upper=upper, min_one_batch=min_one_batch)

    def _out_of_range(self, offset: int) -> OperationError:
        return OperationError(
            ErrorCode.offset_out_of_range,
            f"Received request for offset {offset} for partition {self.topic}-{self.partition}, but we only "
            f"have log segments from offset {self.log_start_offset} up to {self.log_end_offset}.",
        )

    def _read_around(
        self, start_offset: int, *, max_bytes: int, upper_offset: int | None, min_one_batch: bool
    ) -> ReadSlice:
        """Plan a read of a damaged log: as `read`, but it ends before the next damaged range.

        Raises OperationError (CORRUPT_MESSAGE) if it would begin in one.
        """
        if start_offset != self.log_end_offset and not self.log_start_offset <= start_offset < self.log_end_offset:
            raise self._out_of_range(start_offset)
        if start_offset == self.log_end_offset or (upper_offset is not None and upper_offset <= start_offset):
            return empty_slice(start_offset)
        if start_offset < self._segments.first.base_offset:
            raise OffsetInRemoteTierError(self.topic, self.partition, start_offset, self.local_log_start_offset)
        damaged = self.damage.at(start_offset)
        if damaged is not None:
            raise OperationError(
                ErrorCode.corrupt_message,
                f"Offsets {damaged.offset} to {damaged.end_offset - 1} of partition {self.topic}-{self.partition} "
                f"are damaged on this replica: {damaged.reason}",
            )
        with self._storage_errors():
            index = self._segments.floor_index(start_offset)
            while index + 1 < len(self._segments) and not self._reaches(self._segments[index], start_offset):
                index += 1
            segment = self._segments[index]
            whole = upper_offset is None or upper_offset >= self._segments.upper_bound(index, self.log_end_offset)
            before = self.damage.before(segment.base_offset, start_offset)
            after = self.damage.after(segment.base_offset, start_offset)
            return plan_in_segment(
                segment,
                start_offset,
                max_bytes=max_bytes,
                upper_offset=None if whole else upper_offset,
                min_one_batch=min_one_batch,
                first_position=0 if before is None else before.end_position,
                end_position=None if after is None else after.position,
            )

    def _reaches(self, segment: Segment, offset: int) -> bool:
        before = self.damage.before(segment.base_offset, offset)
        if before is None:
            return segment.is_active or segment.reaches(offset)
        return any(header.last_offset >= offset for _, header in segment.headers(before.end_position))

    def _plan_by_index(self, start_offset: int, *, max_bytes: int, upper: int | None, min_one_batch: bool) -> ReadSlice:
        if start_offset < self._segments.first.base_offset:
            raise OffsetInRemoteTierError(self.topic, self.partition, start_offset, self.local_log_start_offset)
        with self._storage_errors():
            index = self._segments.floor_index(start_offset)
            while index + 1 < len(self._segments) and not self._segments[index].reaches(start_offset):
                index += 1
            segment = self._segments[index]
            if upper is not None and upper >= self._segments.upper_bound(index, self.log_end_offset):
                upper = None
            plan = plan_in_segment(
                segment, start_offset, max_bytes=max_bytes, upper_offset=upper, min_one_batch=min_one_batch
            )
        if segment is self._active and upper is None and plan.length == plan.end - plan.position:
            self._remember_tail(self.log_end_offset, segment.size)
        return plan

    def _remember_tail(self, end_offset: int, position: int) -> None:
        hints = self._tail_hints
        if end_offset not in hints:
            if len(hints) >= _MAX_TAIL_HINTS:
                del hints[next(iter(hints))]
            hints[end_offset] = position

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer of [start, upper) must know.

        Raises OperationError (KAFKA_STORAGE_ERROR, on which consumers retry) while a transaction index is damaged; that
        is reported, and the index is rebuilt.
        """
        found: list[AbortedTransaction] = []
        with self._storage_errors():
            for segment in self._segments.from_offset(start_offset):
                entries, complete = overlapping(self._aborted_in(segment), start_offset, upper_offset)
                found += entries
                if complete:
                    break
        return found

    def _aborted_in(self, segment: Segment) -> list[AbortedTransaction]:
        try:
            if not segment.aborted_unsure:
                return segment.aborted()
            reason = "batches that tell of aborted transactions are damaged"
        except CorruptDataError as error:
            reason = str(error)
        self._context.report_damage(self.topic_partition, segment.base_offset, reason)
        raise OperationError(ErrorCode.kafka_storage_error, reason)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is not below the given one. May wait for the disk."""
        with self._storage_errors():
            limit = search_limit(self.config)
            return find_by_timestamp(self._segments, timestamp, self.local_log_start_offset, limit)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp. May wait for the disk."""
        with self._storage_errors():
            return find_max_timestamp(self._segments, search_limit(self.config))

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch that the log knows, -1 without one: that of the last record, or of no record yet."""
        return self.leader_epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above the given one and where it ends (OffsetForLeaderEpoch)."""
        return self.leader_epochs.lineage.end_offset_for(epoch, self.log_end_offset)
