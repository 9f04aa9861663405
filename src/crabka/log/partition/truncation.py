"""Cuts the end of a partition log, or all of it: durable on return, in an order that a crash may interrupt anywhere."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError, require
from crabka.log.recovery.replay import rebuild_producer_state
from crabka.log.segment.txn_rebuild import rebuild_aborted

if TYPE_CHECKING:
    from crabka.log.partition.state import LogState
    from crabka.log.segment.segment import Segment

logger = logging.getLogger(__name__)


class LogTruncation:
    """Moves the log end down."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def announce(self, offset: int) -> None:
        """Lower the recovery point to where the log is about to be cut, and keep it there until the cut.

        The owner checkpoints it before it cuts: a crash during the cut may bring back any of the dropped segments, and
        recovery finds the hole only if it looks there. `withdraw` must follow if the cut does not.
        """
        state = self._state
        state.recovery_point = min(state.recovery_point, offset)
        # Neither a running flush nor one that begins before the cut may raise it above.
        state.truncations += 1
        state.announced_cut = offset

    def withdraw(self) -> None:
        """Let flushes raise the recovery point as usual: the announced cut is done, or will not be done."""
        self._state.announced_cut = None

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> bool:
        """Drop everything from `offset` on; return whether anything was dropped.

        A batch that holds the offset is dropped as a whole, so the log may end lower. Epochs from `offset` on are
        dropped even if no record is: a leader without appends has noted its epoch, which the next leader may not know.

        The owner must checkpoint the lowered recovery point before it appends again.
        """
        state = self._state
        if offset >= state.log_end_offset:
            state.leader_epochs.truncate_from_end(offset)
            return False
        first = state.segments.first.base_offset
        if offset <= first and not state.is_tiered:
            self.truncate_fully(offset, now_ms=now_ms)
            return True
        if offset < first:
            # Older records in the remote tier stay a part of the log.
            self._restart(offset, log_start_offset=min(state.log_start_offset, offset), now_ms=now_ms)
            return True
        require(state.pending is None, f"{state.topic}-{state.partition}: a truncation overtakes an append")
        with state.storage_errors():
            index = state.segments.floor_index(offset - 1)
            state.delete_segments(state.segments.drop_from(index + 1), now_ms)
            state.active = active = state.segments.active
            if not active.is_active:
                self._rebuild_damaged_txn_index(active)
                active.activate(active.load_indexes(), state.config, now_ms)
            end_offset = active.truncate(offset)
            if end_offset < state.log_start_offset <= offset:
                # The rest of the batch at the log start was dropped; the records before it were deleted earlier.
                self.truncate_fully(state.log_start_offset, now_ms=now_ms)
            else:
                state.log_start_offset = min(state.log_start_offset, end_offset)
                self.complete(end_offset)
        return True

    def _rebuild_damaged_txn_index(self, segment: Segment) -> None:
        """Rebuild a damaged transaction index before the segment is cut and appended to. May wait for the disk."""
        try:
            segment.aborted()
        except CorruptDataError as error:
            state = self._state
            rebuilt = rebuild_aborted(state.context.fs, list(state.segments), state.snapshots, segment)
            if rebuilt.gap:
                segment.aborts.hold(rebuilt.entries)
            else:
                segment.aborts.replace(rebuilt.entries)
            logger.warning("%s: rebuilt from the log before a truncation. %s", error, rebuilt.gap)

    def truncate_fully(self, offset: int, *, now_ms: int = 0) -> None:
        """Drop everything and start again, empty, at `offset`."""
        self._state.leader_epochs.clear()
        self._restart(offset, log_start_offset=offset, now_ms=now_ms)

    def _restart(self, offset: int, *, log_start_offset: int, now_ms: int) -> None:
        state = self._state
        require(state.pending is None, f"{state.topic}-{state.partition}: a truncation overtakes an append")
        with state.storage_errors():
            if len(state.segments) > 1:
                # Were only the first one deleted, the others would look like a log that begins there.
                state.delete_segments(state.segments.drop_from(1), now_ms)
                state.context.fs.fsync_dir(state.path)
            state.delete_segments(state.segments.drop_from(0), now_ms)
            state.new_segment(offset, now_ms)
            state.snapshots.remove_outside(0, -1)
            state.producer_state.load([], offset)
            state.log_end_offset, state.log_start_offset = offset, log_start_offset
            self.complete(offset)

    def complete(self, offset: int) -> None:
        """Bring the whole state in line with segments that end at `offset`, durably. Raises OSError."""
        state = self._state
        state.truncations += 1
        state.announced_cut = None
        require(not state.is_held, f"{state.topic}-{state.partition}: a truncation while the log changes its dir")
        state.unsynced = [each for each in state.unsynced if each in state.segments and not each.is_active]
        state.tail_hints.clear()
        state.damage.truncate(offset)
        state.damage.keep(state.segments.bases)
        state.is_damaged = len(state.damage) > 0
        state.context.fs.fsync_dir(state.path)
        state.log_end_offset = max(offset, state.segments.first.base_offset)
        if state.mirror is not None:
            state.mirror.on_truncated(state.active.base_offset, state.active.size)
        state.recovery_point = min(state.recovery_point, offset)
        # Records appended from here on are not in the remote tier.
        state.highest_remote_offset = min(state.highest_remote_offset, offset - 1)
        state.leader_epochs.truncate_from_end(offset)
        rebuild_producer_state(
            state.producer_state,
            state.snapshots,
            state.segments,
            start=state.log_start_offset,
            end=state.log_end_offset,
        )
        state.set_high_watermark(min(state.high_watermark, state.log_end_offset))
