"""Drops the oldest segments of a partition log: DeleteRecords, retention, local retention of a tiered log (KIP-405)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.log.segment.segment import Segment
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.log.partition.state import LogState
    from crabka.log.segment.segments import Segments

Expired = Callable[[Segment, int], bool]
"""Whether a segment, which ends at the given offset, may be dropped. Called from the oldest on."""


def count_deletable(segments: Segments, *, end: int, log_end: int, expired: Expired) -> int:
    """Return how many of the oldest segments are `expired(segment, upper_bound)` and lie wholly below `end`.

    An empty last segment always stays.
    """
    count = 0
    for index, segment in enumerate(segments):
        upper_bound = segments.upper_bound(index, log_end)
        is_last = index + 1 == len(segments)
        if upper_bound > end or (is_last and segment.size == 0) or not expired(segment, upper_bound):
            break
        count += 1
    return count


def expired_by_time(now_ms: int, retention_ms: int) -> Expired:
    """Return the test for `retention.ms`. A segment that compaction has emptied never stays."""
    return lambda segment, _upper_bound: not segment.size or now_ms - segment.largest_timestamp() > retention_ms


def expired_by_size(total_bytes: int, retention_bytes: int) -> Expired:
    """Return the test for `retention.bytes`: the oldest are dropped as long as at least that much is left."""
    surplus = total_bytes - retention_bytes

    def expired(segment: Segment, _upper_bound: int) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return expired


def expired_by_log_start(log_start_offset: int) -> Expired:
    """Return the test for segments wholly below the log start (DeleteRecords)."""
    return lambda _segment, upper_bound: upper_bound <= log_start_offset


class LogRetention:
    """Moves the log start up, and removes the segments that are below it or in the remote tier."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    # -- the log start -------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the high watermark); return the new log start.

        Segments below are removed by the next retention run. Raises OperationError (OFFSET_OUT_OF_RANGE) above the
        high watermark.
        """
        state = self._state
        target = state.high_watermark if offset == -1 else offset
        if target > state.high_watermark or target < 0:
            raise OperationError(
                ErrorCode.offset_out_of_range,
                f"Cannot increment the log start offset to {target} of partition {state.topic_partition} since "
                f"it is larger than the high watermark {state.high_watermark}",
            )
        state.raise_log_start(target)
        return state.log_start_offset

    def raise_log_start(self, offset: int) -> bool:
        """Move the log start up to `offset`, the new start of the remote tier; return whether it moved.

        Local segments stay until the next retention run. The owner checkpoints log starts before it deletes older
        segments in the remote tier. Raises OperationError (OFFSET_OUT_OF_RANGE) above the high watermark.
        """
        before = self._state.log_start_offset
        return offset > before and self.delete_records_before(offset) > before

    @property
    def copies_to_tier(self) -> bool:
        """Whether segments are copied to the remote tier, so that they leave this disk only after that."""
        return self._state.is_tiered and not self._state.config.remote_log_copy_disable

    def expire(self, now_ms: int) -> bool:
        """Move the log start past the segments that age and size no longer keep; return whether it moved.

        The owner checkpoints log starts before it calls `delete_below_log_start`: a crash during the deletion may bring
        back any of the files, and only the log start shows that they are old. A log whose segments are copied to the
        remote tier does not change: see `drop_oldest_tiered`.
        """
        state = self._state
        config, before = state.config, state.log_start_offset
        if config.delete and not self.copies_to_tier:
            if config.retention_bytes >= 0:
                self._expire_by(expired_by_size(state.size_bytes, config.retention_bytes))
            if config.retention_ms >= 0:
                self._expire_by(expired_by_time(now_ms, config.retention_ms))
        return state.log_start_offset > before

    def _expire_by(self, expired: Expired) -> None:
        state = self._state
        with state.storage_errors():
            count = self._count_deletable(expired)
            if count:
                state.raise_log_start(state.segments.upper_bound(count - 1, state.log_end_offset))

    def _count_deletable(self, expired: Expired) -> int:
        state = self._state
        return count_deletable(state.segments, end=state.high_watermark, log_end=state.log_end_offset, expired=expired)

    # -- removing segments ---------------------------------------------------------------------------------------

    def has_segments_below_start(self) -> bool:
        """Return whether `delete_below_log_start` has something to do."""
        segments = self._state.segments
        return len(segments) > 1 and segments[1].base_offset <= self._state.log_start_offset

    def delete_below_log_start(self, now_ms: int) -> list[Segment]:
        """Drop the segments that lie wholly below the log start; return them."""
        state = self._state
        if state.is_held:
            return []
        with state.storage_errors():
            count = self._count_deletable(expired_by_log_start(state.log_start_offset))
            if count == len(state.segments) and state.pending is not None:
                # A batch is being written to the active segment, which therefore stays until another run.
                count -= 1
            if count == 0:
                return []
            if count == len(state.segments):
                # A log is never without a segment, and the new one shows where the log ends.
                state.roll(now_ms)
            return self._drop_first(count, now_ms)

    def _drop_first(self, count: int, now_ms: int) -> list[Segment]:
        state = self._state
        dropped = state.segments.drop_first(count)
        first = state.segments.first
        if first.is_active or first in state.unsynced:
            # Its name must not be lost while later names survive.
            state.context.fs.fsync_dir(state.path)
        state.unsynced = [segment for segment in state.unsynced if segment not in dropped]
        state.delete_segments(dropped, now_ms)
        for segment in dropped:
            state.snapshots.remove(segment.base_offset)
        return dropped

    def sync_names(self) -> None:
        """Make created and deleted names of the log durable. Waits for the disk; runs in any thread."""
        state = self._state
        with state.storage_errors():
            try:
                state.context.fs.fsync_dir(state.path)
            except FileNotFoundError:
                # A log that was deleted meanwhile has another name.
                if state.context.fs.exists(state.path):
                    raise

    # -- local retention -----------------------------------------------------------------------------------------

    def may_drop_tiered(self, now_ms: int) -> bool:
        """Return whether the oldest segment is in the remote tier, durable here as well, and past local retention."""
        state = self._state
        segments = state.segments
        if not self.copies_to_tier or len(segments) == 1 or state.is_held or not state.is_remote_offset_current:
            return False
        first, end = segments.first, segments.upper_bound(0, state.log_end_offset)
        # A follower learns of offsets in the tier before it has flushed them; epochs and producers would be lost.
        if end > min(state.high_watermark, state.highest_remote_offset + 1) or not state.is_flushed(first, end):
            return False
        with state.storage_errors():
            return self._is_past_local_retention(first, end, now_ms)

    def drop_oldest_tiered(self, now_ms: int) -> Segment | None:
        """Remove the oldest segment from this disk if `may_drop_tiered`; return it. The log start does not move.

        The owner has checkpointed the log start before, and calls `sync_names` before it drops the next one: otherwise
        a crash could bring a segment back without the one after it.
        """
        if not self.may_drop_tiered(now_ms):
            return None
        with self._state.storage_errors():
            return self._drop_first(1, now_ms)[0]

    def roll_if_past_local_retention(self, now_ms: int) -> bool:
        """Seal the active segment if it is the only one and past local retention, so that it can be copied."""
        state = self._state
        active = state.active
        due = (
            self.copies_to_tier
            and len(state.segments) == 1
            and active.size > 0
            and state.pending is None
            and not state.is_held
            and state.high_watermark >= state.log_end_offset
        )
        with state.storage_errors():
            due = due and self._is_past_local_retention(active, state.log_end_offset, now_ms)
        if due:
            state.roll(now_ms)
        return due

    def _is_past_local_retention(self, segment: Segment, end_offset: int, now_ms: int) -> bool:
        config = self._state.config
        limit_bytes, limit_ms = config.effective_local_retention_bytes, config.effective_local_retention_ms
        tests = []
        if limit_bytes >= 0:
            tests.append(expired_by_size(self._state.size_bytes, limit_bytes))
        if limit_ms >= 0:
            tests.append(expired_by_time(now_ms, limit_ms))
        return any(expired(segment, end_offset) for expired in tests)
