"""What survives a crash or a stop: flushes, what the checkpoints may say, and the state that a clean stop leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import require
from crabka.formats.file_names import ABORTED_CHECKPOINT, PARTITION_METADATA
from crabka.log.partition.flushing import FlushPlan

if TYPE_CHECKING:
    from crabka.log.partition.state import LogState
    from crabka.log.recovery.loss import LogLoss
    from crabka.log.recovery.recovery import LoadedLog


class LogDurability:
    """The durable part of a log."""

    __slots__ = (
        "_durable_deletions",
        "_durable_names",
        "_flush",
        "_lost_end",
        "_settled_shape",
        "_state",
        "_unproven_end",
        "last_flush_ms",
        "loss",
    )

    def __init__(self, state: LogState, loaded: LoadedLog) -> None:
        self._state = state
        self.last_flush_ms = loaded.now_ms
        # The only flush of the log that may be running.
        self._flush: FlushPlan | None = None
        # How many changes of names, and how many deletions of segments, a crash can no longer undo.
        self._durable_names = self._durable_deletions = 0
        # Durable or committed offsets that the opening did not find; see LogLoss for what follows from it.
        self.loss: LogLoss | None = loaded.loss
        # Where the log ended when it was opened, and where the records ended that may be missing there, if any may.
        self._unproven_end = None if loaded.lost_end_offset is None else loaded.log_end_offset
        self._lost_end = loaded.lost_end_offset or 0
        # What a clean stop left here, None if there was none.
        self._settled_shape = state.shape() if loaded.is_settled else None

    # -- checkpoints ---------------------------------------------------------------------------------------------

    @property
    def checkpoint_recovery_point(self) -> int:
        """The recovery point to write down: not above a segment whose indexes are not durable."""
        state = self._state
        first = state.unsynced[0] if state.unsynced else state.active
        return min(state.recovery_point, first.base_offset)

    @property
    def checkpoint_high_watermark(self) -> int:
        """The high watermark to write down: while records are missing, every opening must find that."""
        known = self._state.high_watermark
        if self.loss is not None:
            known = max(known, self.loss.end_offset)
        return max(known, self._lost_end) if self.may_be_short else known

    def needs_start_checkpoint(self) -> bool:
        """Return whether the log start does not follow from the files alone, or would not after a crash."""
        state = self._state
        trimmed = state.log_start_offset != state.segments.first.base_offset
        return trimmed or self._durable_deletions < state.deletions or state.is_tiered

    # -- missing records -----------------------------------------------------------------------------------------

    def settle_loss(self) -> None:
        """Ignore a loss from now on: the replica is in sync again, or no other replica has more."""
        self.loss = None

    @property
    def may_be_short(self) -> bool:
        """Whether the remote tier may hold records after the end of the log: durable ones may be missing here.

        True if the log was opened without records, or with an end below what its checkpoints say, and nothing was
        appended since. A stop does not change that: `checkpoint_high_watermark` keeps it.
        """
        state = self._state
        return self._unproven_end is not None and self._unproven_end == state.log_end_offset and state.is_tiered

    def trust_end(self) -> None:
        """Note that nothing is missing at the end: the log is new, or was compared with the remote tier."""
        self._unproven_end = None

    # -- flushing ------------------------------------------------------------------------------------------------

    def has_unflushed_segments(self) -> bool:
        """Return whether a sealed segment is not durable yet, or its indexes are not."""
        state = self._state
        return bool(state.unsynced) or state.recovery_point < state.active.base_offset

    @property
    def _names_dirty(self) -> bool:
        return self._durable_names < self._state.name_changes

    def begin_flush(self) -> FlushPlan | None:
        """Return what a flush up to the log end must sync, None if nothing is dirty. The plan runs in any thread.

        `finish_flush` must follow, or `fail_flush`. The caller makes sure that no other flush is running
        (`DirWriter.flush` does): two plans would race for the leader epochs, and the first to end would raise the
        recovery point above what the other has still to sync.
        """
        state = self._state
        require(self._flush is None, f"{state.topic}-{state.partition}: a flush overtakes another")
        epochs = state.leader_epochs
        if state.recovery_point >= state.log_end_offset and not (state.unsynced or self._names_dirty or epochs.dirty):
            return None
        self._flush = FlushPlan(
            fs=state.context.fs,
            directory=state.path,
            up_to=state.log_end_offset if state.announced_cut is None else state.announced_cut,
            paths=self._dirty_paths(),
            active=state.active.open_handle,
            epochs=epochs.encode() if epochs.dirty else None,
            epochs_version=epochs.version,
            names=self._names_dirty,
            name_changes=state.name_changes,
            truncations=state.truncations,
            sealed=tuple(state.unsynced),
            deletions=state.deletions,
        )
        return self._flush

    def _dirty_paths(self) -> list[str]:
        state = self._state
        unflushed = [each for each in state.segments.from_offset(state.recovery_point) if not each.is_active]
        paths = [path for segment in dict.fromkeys([*unflushed, *state.unsynced]) for path in segment.paths()]
        paths += [state.snapshots.path(o) for o in state.snapshots.offsets if o >= state.recovery_point]
        if self._names_dirty:
            paths += [f"{state.path}/{PARTITION_METADATA}", f"{state.path}/{ABORTED_CHECKPOINT}"]
        return paths

    def fail_flush(self, plan: FlushPlan) -> None:
        """Note that a plan failed: everything stays dirty."""
        if plan is self._flush:
            self._flush = None

    def finish_flush(self, plan: FlushPlan, now_ms: int | None = None) -> None:
        """Note that a plan has run: only now are its changes durable.

        A plan that was abandoned, or that `join_flush` has finished, has no effect. Nor has one that a truncation
        overtook: all of its changes stay dirty for the next one.
        """
        if plan is not self._flush:
            return
        self._flush = None
        if now_ms is not None:
            self.last_flush_ms = now_ms
        state = self._state
        if plan.truncations != state.truncations:
            return
        state.unsynced = [segment for segment in state.unsynced if segment not in plan.sealed]
        if plan.names:
            self._durable_names, self._durable_deletions = plan.name_changes, plan.deletions
        if plan.epochs is not None:
            state.leader_epochs.note_saved(plan.epochs_version)
        state.recovery_point = max(state.recovery_point, plan.up_to)

    def abandon_flush(self) -> None:
        """Let a running flush have no effect any more: it is about a directory that the log has left."""
        if self._flush is not None:
            self._flush.abandon()
            self._flush = None

    def join_flush(self) -> None:
        """Wait for a running flush, or run it here if no thread has begun it. Raises OSError."""
        plan = self._flush
        if plan is None:
            return
        try:
            plan.run()
        except OSError:
            self.fail_flush(plan)
            raise
        self.finish_flush(plan)

    def flush(self, up_to: int | None = None) -> None:
        """Make the log durable, at least below `up_to`. Waits for the disk. Raises StorageError."""
        if up_to is not None and up_to <= self._state.recovery_point:
            return
        with self._state.storage_errors():
            self.join_flush()
            if self.begin_flush() is not None:
                self.join_flush()

    # -- opening and stopping ------------------------------------------------------------------------------------

    def settle_descriptor(self) -> None:
        """After the opening: close the file of the active segment if all is durable or too many are open already.

        May wait for the disk; the caller is in a thread, or has just created the log. Raises StorageError.
        """
        state = self._state
        if state.recovery_point >= state.log_end_offset:
            # A clean stop has synced the file, or it is empty.
            state.active.note_durable()
        if state.active.is_durable or not state.context.open_segments.is_crowded:
            state.active.rest()
            return
        with state.storage_errors():
            state.active.sync_and_rest()

    @property
    def is_untouched(self) -> bool:
        """Whether the disk holds all that a clean stop would write, because nothing has changed since the last one.

        A leader epoch that began since then and has no records does not count: it need not survive.
        """
        state = self._state
        return self._settled_shape == state.shape() and not self._names_dirty and not state.unsynced

    def settle(self) -> None:
        """Write everything that an opening without a scan needs. Raises StorageError.

        A log that has not changed since it was opened has all of that already: a node with many idle partitions stops
        without a sync for each.
        """
        if self.is_untouched:
            return
        state = self._state
        require(state.pending is None, f"{state.topic}-{state.partition}: the log closes before an append is done")
        with state.storage_errors():
            state.active.persist_indexes(final=True)
            if self._is_blank:
                metadata = f"{state.path}/{PARTITION_METADATA}"
                FlushPlan(fs=state.context.fs, directory=state.path, up_to=0, paths=[metadata], names=True).run()
                return
            state.write_aborted_note()
            state.take_snapshot(state.log_end_offset)
            state.name_changes += 1
            self.flush()
            FlushPlan(fs=state.context.fs, directory=state.path, up_to=0, paths=state.active.paths()).run()

    @property
    def _is_blank(self) -> bool:
        """Whether the log never had a record: then only its names must become durable, its files are empty."""
        state = self._state
        return state.log_end_offset == 0 and len(state.segments) == 1 and not state.unsynced and not state.truncations

    def note_rehomed(self) -> None:
        """Note that the log has moved to a copy: a durable one, without the files that a clean stop leaves."""
        self._durable_deletions = self._state.deletions
        self._settled_shape = None
        # One that runs is about the old directory.
        self.abandon_flush()
