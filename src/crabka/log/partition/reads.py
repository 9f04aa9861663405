"""Reads of a partition log that need more than the tail: by index, around damage, aborted transactions, by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError, OffsetInRemoteTierError, OperationError
from crabka.formats.transaction_index import AbortedTransaction, overlapping
from crabka.log.partition.decompression import search_limit
from crabka.log.partition.reader import ReadSlice, empty_slice, plan_in_segment
from crabka.log.partition.timestamps import TimestampOffset, find_by_timestamp, find_max_timestamp
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.log.partition.state import LogState
    from crabka.log.segment.segment import Segment

_MAX_TAIL_HINTS: Final = 16


class LogReads:
    """Plans reads and searches the log. `PartitionLog.read` is the entry for fetches."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    # -- fetches -------------------------------------------------------------------------------------------------

    def out_of_range(self, offset: int) -> OperationError:
        """Return the error for an offset that the log does not have."""
        state = self._state
        return OperationError(
            ErrorCode.offset_out_of_range,
            f"Received request for offset {offset} for partition {state.topic_partition}, but we only "
            f"have log segments from offset {state.log_start_offset} up to {state.log_end_offset}.",
        )

    def remember_tail(self, end_offset: int, position: int) -> None:
        """Keep the position of a log end: a consumer at the tail requests exactly this offset next."""
        hints = self._state.tail_hints
        if end_offset not in hints:
            if len(hints) >= _MAX_TAIL_HINTS:
                del hints[next(iter(hints))]
            hints[end_offset] = position

    def plan_by_index(
        self, start_offset: int, *, max_bytes: int, upper_offset: int | None, min_one_batch: bool
    ) -> ReadSlice:
        """Plan a read from an offset that the log has, up to `upper_offset` or to the log end."""
        state = self._state
        segments = state.segments
        if start_offset < segments.first.base_offset:
            raise OffsetInRemoteTierError(state.topic, state.partition, start_offset, state.local_log_start_offset)
        with state.storage_errors():
            index = segments.floor_index(start_offset)
            while index + 1 < len(segments) and not segments[index].reaches(start_offset):
                index += 1
            segment = segments[index]
            if upper_offset is not None and upper_offset >= segments.upper_bound(index, state.log_end_offset):
                upper_offset = None
            plan = plan_in_segment(
                segment, start_offset, max_bytes=max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch
            )
        if segment is state.active and upper_offset is None and plan.length == plan.end - plan.position:
            self.remember_tail(state.log_end_offset, segment.size)
        return plan

    def plan_around_damage(
        self, start_offset: int, *, max_bytes: int, upper_offset: int | None, min_one_batch: bool
    ) -> ReadSlice:
        """Plan a read of a damaged log: as `PartitionLog.read`, but it ends before the next damaged range.

        Raises OperationError (CORRUPT_MESSAGE) if it would begin in one.
        """
        state = self._state
        segments, damage = state.segments, state.damage
        if start_offset != state.log_end_offset and not state.log_start_offset <= start_offset < state.log_end_offset:
            raise self.out_of_range(start_offset)
        if start_offset == state.log_end_offset or (upper_offset is not None and upper_offset <= start_offset):
            return empty_slice(start_offset)
        if start_offset < segments.first.base_offset:
            raise OffsetInRemoteTierError(state.topic, state.partition, start_offset, state.local_log_start_offset)
        damaged = damage.at(start_offset)
        if damaged is not None:
            raise OperationError(
                ErrorCode.corrupt_message,
                f"Offsets {damaged.offset} to {damaged.end_offset - 1} of partition {state.topic_partition} "
                f"are damaged on this replica: {damaged.reason}",
            )
        with state.storage_errors():
            index = segments.floor_index(start_offset)
            while index + 1 < len(segments) and not self._reaches(segments[index], start_offset):
                index += 1
            segment = segments[index]
            whole = upper_offset is None or upper_offset >= segments.upper_bound(index, state.log_end_offset)
            before = damage.before(segment.base_offset, start_offset)
            after = damage.after(segment.base_offset, start_offset)
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
        before = self._state.damage.before(segment.base_offset, offset)
        if before is None:
            return segment.is_active or segment.reaches(offset)
        return any(header.last_offset >= offset for _, header in segment.headers(before.end_position))

    # -- searches ------------------------------------------------------------------------------------------------

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer of [start, upper) must skip.

        Raises OperationError (KAFKA_STORAGE_ERROR, on which consumers retry) while a transaction index is damaged; that
        is reported, and the index is rebuilt.
        """
        found: list[AbortedTransaction] = []
        with self._state.storage_errors():
            for segment in self._state.segments.from_offset(start_offset):
                entries, complete = overlapping(self._aborted_in(segment), start_offset, upper_offset)
                found += entries
                if complete:
                    break
        return found

    def _aborted_in(self, segment: Segment) -> list[AbortedTransaction]:
        try:
            if not segment.aborts.is_unsure:
                return segment.aborted()
            reason = "batches that end aborted transactions are damaged"
        except CorruptDataError as error:
            reason = str(error)
        self._state.context.report_damage(self._state.topic_partition, segment.base_offset, reason)
        raise OperationError(ErrorCode.kafka_storage_error, reason)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is not below the given one. May wait for the disk."""
        state = self._state
        with state.storage_errors():
            limit = search_limit(state.config)
            return find_by_timestamp(state.segments, timestamp, state.local_log_start_offset, limit)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp. May wait for the disk."""
        with self._state.storage_errors():
            return find_max_timestamp(self._state.segments, search_limit(self._state.config))
