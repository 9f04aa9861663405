"""The shrinking side of a partition log: DeleteRecords, truncation, retention."""

from __future__ import annotations

import logging

from crabka.errors import CorruptDataError, OperationError, require
from crabka.log.partition import retention
from crabka.log.partition.state import LogState
from crabka.log.recovery.replay import rebuild_producer_state
from crabka.log.segment.segment import Segment
from crabka.log.segment.txn_rebuild import rebuild_aborted
from crabka.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class LogShrinking(LogState):
    """Moving the log start up and the log end down."""

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the high watermark); return the new log start.

        Segments below go with the next retention run. Raises OperationError (OFFSET_OUT_OF_RANGE) above the
        high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise OperationError(
                ErrorCode.offset_out_of_range,
                f"Cannot increment the log start offset to {target} of partition {self.topic}-{self.partition} since "
                f"it is larger than the high watermark {self.high_watermark}",
            )
        self._raise_log_start(target)
        return self.log_start_offset

    def raise_log_start(self, offset: int) -> bool:
        """Move the log start up to `offset`, where the remote tier begins now; return whether it moved.

        Local segments stay until the next retention run. The owner checkpoints log starts before it deletes what lies
        below in the remote tier. Raises OperationError (OFFSET_OUT_OF_RANGE) above the high watermark.
        """
        before = self.log_start_offset
        return offset > before and self.delete_records_before(offset) > before

    def announce_truncation(self, offset: int) -> None:
        """Lower the recovery point to where the log is about to be cut, and keep it there until the cut.

        The owner checkpoints it before it cuts: a crash in the middle may bring back any of the dropped segments, and
        recovery finds the hole only if it looks there. `withdraw_truncation` must follow if the cut does not.
        """
        self.recovery_point = min(self.recovery_point, offset)
        # Neither a flush that is under way nor one that begins before the cut may raise it above.
        self._truncations += 1
        self._announced_cut = offset

    def withdraw_truncation(self) -> None:
        """Let flushes raise the recovery point as usual: what was announced is done, or is not done at all."""
        self._announced_cut = None

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> bool:
        """Drop everything from `offset` on; return whether anything went. Durable on return.

        A batch that holds the offset goes as a whole, so the log may end lower. Epochs from `offset` on go even if no
        record does: a leader that appended nothing has noted its epoch, of which the next leader may know nothing.

        The owner must checkpoint the lowered recovery point before it appends again.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return False
        first = self._segments.first.base_offset
        if offset <= first and not self.is_tiered:
            self.truncate_fully(offset, now_ms=now_ms)
            return True
        if offset < first:
            # What the remote tier holds below stays a part of the log.
            self._begin_anew(offset, log_start_offset=min(self.log_start_offset, offset), now_ms=now_ms)
            return True
        require(self._pending is None, f"{self.topic}-{self.partition}: a truncation overtakes an append")
        with self._storage_errors():
            index = self._segments.floor_index(offset - 1)
            self._delete_segments(self._segments.drop_from(index + 1), now_ms)
            self._active = self._segments.active
            if not self._active.is_active:
                self._mend_aborted(self._active)
                self._active.activate(self._active.load_indexes(), self.config, now_ms)
            end_offset = self._active.truncate(offset)
            if end_offset < self.log_start_offset <= offset:
                # The rest of the batch at the log start went; what lies before it was deleted long ago.
                self.truncate_fully(self.log_start_offset, now_ms=now_ms)
            else:
                self.log_start_offset = min(self.log_start_offset, end_offset)
                self._after_truncation(end_offset)
        return True

    def _mend_aborted(self, segment: Segment) -> None:
        """Rebuild a damaged transaction index before the segment is cut and appended to. May wait for the disk."""
        try:
            segment.aborted()
        except CorruptDataError as error:
            rebuilt = rebuild_aborted(self._context.fs, list(self._segments), self._snapshots, segment)
            if rebuilt.gap:
                segment.hold_aborted(rebuilt.entries)
            else:
                segment.replace_aborted(rebuilt.entries)
            logger.warning("%s: rebuilt from the log before a truncation. %s", error, rebuilt.gap)

    def truncate_fully(self, offset: int, *, now_ms: int = 0) -> None:
        """Drop everything and start again, empty, at `offset`. Durable on return."""
        self.leader_epochs.clear()
        self._begin_anew(offset, log_start_offset=offset, now_ms=now_ms)

    def _begin_anew(self, offset: int, *, log_start_offset: int, now_ms: int) -> None:
        require(self._pending is None, f"{self.topic}-{self.partition}: a truncation overtakes an append")
        with self._storage_errors():
            if len(self._segments) > 1:
                # Were the first one to go alone, the others would seem to be a log that begins there.
                self._delete_segments(self._segments.drop_from(1), now_ms)
                self._context.fs.fsync_dir(self.path)
            self._delete_segments(self._segments.drop_from(0), now_ms)
            self._new_segment(offset, now_ms)
            self._snapshots.remove_outside(0, -1)
            self.producer_state.load([], offset)
            self.log_end_offset, self.log_start_offset = offset, log_start_offset
            self._after_truncation(offset)

    def _after_truncation(self, offset: int) -> None:
        self._truncations += 1
        self._announced_cut = None
        require(not self.is_held, f"{self.topic}-{self.partition}: a truncation while the log changes its dir")
        self._unsynced = [segment for segment in self._unsynced if segment in self._segments and not segment.is_active]
        self._tail_hints.clear()
        self.damage.truncate(offset)
        self.damage.keep(self._segments.bases)
        self.is_damaged = len(self.damage) > 0
        self._context.fs.fsync_dir(self.path)
        self.log_end_offset = max(offset, self._segments.first.base_offset)
        if self.mirror is not None:
            self.mirror.on_truncated(self._active.base_offset, self._active.size)
        self.recovery_point = min(self.recovery_point, offset)
        # What comes in the place of the records that went is not in the remote tier.
        self.highest_remote_offset = min(self.highest_remote_offset, offset - 1)
        self.leader_epochs.truncate_from_end(offset)
        rebuild_producer_state(
            self.producer_state, self._snapshots, self._segments, start=self.log_start_offset, end=self.log_end_offset
        )
        self.set_high_watermark(min(self.high_watermark, self.log_end_offset))

    def apply_retention(self, now_ms: int) -> list[Segment]:
        """Drop the segments that age, size and log start no longer keep; return them."""
        self.expire_by_retention(now_ms)
        return self.delete_below_log_start(now_ms)

    @property
    def copies_to_tier(self) -> bool:
        """Whether segments go to the remote tier, which then says what may leave this disk."""
        return self.is_tiered and not self.config.remote_log_copy_disable

    def expire_by_retention(self, now_ms: int) -> bool:
        """Move the log start behind the segments that age and size no longer keep; return whether it moved.

        The owner checkpoints log starts before it calls `delete_below_log_start`: a crash in the middle of deleting
        may bring any of the files back, and only the log start tells that they are old. A log whose segments go to
        the remote tier does not change: see `drop_oldest_tiered`.
        """
        config, before = self.config, self.log_start_offset
        if config.delete and not self.copies_to_tier:
            if config.retention_bytes >= 0:
                self._expire(retention.expired_by_size(self.size_bytes, config.retention_bytes))
            if config.retention_ms >= 0:
                self._expire(retention.expired_by_time(now_ms, config.retention_ms))
        return self.log_start_offset > before

    def delete_below_log_start(self, now_ms: int) -> list[Segment]:
        """Drop the segments that lie wholly below the log start; return them."""
        if self.is_held:
            return []
        with self._storage_errors():
            count = self._count_deletable(retention.expired_by_log_start(self.log_start_offset))
            if count == len(self._segments) and self._pending is not None:
                # A batch is on its way into the active segment, which therefore waits for another run.
                count -= 1
            if count == 0:
                return []
            if count == len(self._segments):
                # A log is never without a segment, and the new one must know where the log ends.
                self._roll(now_ms)
            return self._drop_first(count, now_ms)

    def _drop_first(self, count: int, now_ms: int) -> list[Segment]:
        dropped = self._segments.drop_first(count)
        first = self._segments.first
        if first.is_active or first in self._unsynced:
            # Its name must not be lost while the names behind it survive.
            self._context.fs.fsync_dir(self.path)
        self._unsynced = [segment for segment in self._unsynced if segment not in dropped]
        self._delete_segments(dropped, now_ms)
        for segment in dropped:
            self._snapshots.remove(segment.base_offset)
        return dropped

    def has_segments_below_start(self) -> bool:
        """Return whether `delete_below_log_start` has something to do."""
        return len(self._segments) > 1 and self._segments[1].base_offset <= self.log_start_offset

    def _expire(self, expired: retention.Expired) -> None:
        with self._storage_errors():
            count = self._count_deletable(expired)
            if count:
                self._raise_log_start(self._segments.upper_bound(count - 1, self.log_end_offset))

    def _count_deletable(self, expired: retention.Expired) -> int:
        return retention.count_deletable(
            self._segments, end=self.high_watermark, log_end=self.log_end_offset, expired=expired
        )

    def _delete_segments(self, segments: list[Segment], now_ms: int) -> None:
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            segment.delete_later(due_ms)
        self._note_names()
        self._deletions += 1
