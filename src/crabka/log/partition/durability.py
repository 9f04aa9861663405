"""The durable side of a partition log: flushes, what the checkpoints may say, closing, renaming, deleting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import require
from crabka.formats.file_names import ABORTED_CHECKPOINT, PARTITION_METADATA, DirectoryKind, marked_name
from crabka.log.partition.flushing import FlushPlan
from crabka.log.partition.state import LogState

if TYPE_CHECKING:
    import uuid


class LogDurability(LogState):
    """What survives a crash or a stop."""

    @property
    def checkpoint_recovery_point(self) -> int:
        """The recovery point as it may be written down: not above a segment whose indexes are not durable."""
        first = self._unsynced[0] if self._unsynced else self._active
        return min(self.recovery_point, first.base_offset)

    @property
    def checkpoint_high_watermark(self) -> int:
        """The high watermark as it may be written down: while a loss counts, every opening must find it."""
        return self.high_watermark if self.loss is None else max(self.high_watermark, self.loss.end_offset)

    def settle_loss(self) -> None:
        """Let a loss no longer count: the replica is in sync again, or nobody has more."""
        self.loss = None

    def has_unflushed_segments(self) -> bool:
        """Return whether a sealed segment is not durable yet, or its indexes are not."""
        return bool(self._unsynced) or self.recovery_point < self._active.base_offset

    def needs_start_checkpoint(self) -> bool:
        """Return whether the files alone do not tell the log start, or would not after a crash."""
        trimmed = self.log_start_offset != self._segments.first.base_offset
        return trimmed or self._durable_deletions < self._deletions or self.is_tiered

    def begin_flush(self) -> FlushPlan | None:
        """Return what a flush up to the log end must sync, None if nothing is dirty. The plan runs in any thread.

        `finish_flush` must follow, or `fail_flush`. The caller makes sure that no other flush is under way
        (`DirWriter.flush` does): two plans would race for the leader epochs, and the first to end would raise the
        recovery point above what the other has still to sync.
        """
        require(self._flush is None, f"{self.topic}-{self.partition}: a flush overtakes another")
        epochs = self.leader_epochs
        if self.recovery_point >= self.log_end_offset and not (self._unsynced or self._names_dirty or epochs.dirty):
            return None
        paths: list[str] = []
        unflushed = [segment for segment in self._segments.from_offset(self.recovery_point) if not segment.is_active]
        for segment in dict.fromkeys([*unflushed, *self._unsynced]):
            paths += segment.paths()
        paths += [self._snapshots.path(o) for o in self._snapshots.offsets if o >= self.recovery_point]
        if self._names_dirty:
            paths += [f"{self.path}/{PARTITION_METADATA}", f"{self.path}/{ABORTED_CHECKPOINT}"]
        self._flush = FlushPlan(
            fs=self._context.fs,
            directory=self.path,
            up_to=self.log_end_offset if self._announced_cut is None else self._announced_cut,
            paths=paths,
            active=self._active.open_handle,
            epochs=epochs.encode() if epochs.dirty else None,
            epochs_version=epochs.version,
            names=self._names_dirty,
            name_changes=self._name_changes,
            truncations=self._truncations,
            sealed=tuple(self._unsynced),
            deletions=self._deletions,
        )
        return self._flush

    def flush(self, up_to: int | None = None) -> None:
        """Make the log durable, at least below `up_to`. Waits for the disk. Raises StorageError.

        A flush that is under way in a thread is waited for, or done here if it has not begun.
        """
        if up_to is not None and up_to <= self.recovery_point:
            return
        with self._storage_errors():
            self._join_flush()
            if self.begin_flush() is not None:
                self._join_flush()

    def close(self, *, clean: bool) -> None:
        """Let go of all files. `clean` first writes everything that an opening without a scan needs.

        A log that nobody has touched since it was opened has all of that already: a node with many idle partitions
        stops without a sync for each.
        """
        if clean and not self.is_untouched:
            require(self._pending is None, f"{self.topic}-{self.partition}: the log closes before an append is done")
            with self._storage_errors():
                self._active.persist_indexes(final=True)
                if self._is_blank:
                    metadata = f"{self.path}/{PARTITION_METADATA}"
                    FlushPlan(fs=self._context.fs, directory=self.path, up_to=0, paths=[metadata], names=True).run()
                    self._let_go()
                    return
                self._write_aborted_note()
                self._take_snapshot(self.log_end_offset)
                self._note_names()
                self.flush()
                FlushPlan(fs=self._context.fs, directory=self.path, up_to=0, paths=self._active.paths()).run()
        self._let_go()

    @property
    def _is_blank(self) -> bool:
        """Whether the log never had a record: then only its names must become durable, its files are empty."""
        return self.log_end_offset == 0 and len(self._segments) == 1 and not self._unsynced and not self._truncations

    def _let_go(self) -> None:
        self.is_open = False
        for segment in self._segments:
            segment.close()

    def delete(self, unique: uuid.UUID, now_ms: int) -> str:
        """Rename the directory to `-delete` and hand it over for removal; return its new path."""
        path = self.rename_directory(marked_name(self.topic_partition, DirectoryKind.DELETE, unique))
        self.finish_delete(path, now_ms)
        return path

    def begin_delete(self, target: str) -> None:
        """Rename the directory to `target`; `finish_delete` follows on the loop. Runs in a thread; raises OSError."""
        # Its files would be those of the next log of this name.
        self._abandon_flush()
        self._context.fs.rename(self.path, target)

    def finish_delete(self, path: str, now_ms: int) -> None:
        """Let go of a log whose directory was renamed to `path`, and hand that over for removal."""
        self._follow(path)
        self._let_go()
        self._context.schedule_deletion(path, now_ms + self.config.file_delete_delay_ms)

    def rename_directory(self, name: str) -> str:
        """Move the log to another name in the same log dir, durably; return the new path."""
        target = f"{self.log_dir}/{name}"
        with self._storage_errors():
            # Its files would be those of the next log of this name.
            self._abandon_flush()
            self._context.fs.rename(self.path, target)
            self._context.fs.fsync_dir(self.log_dir)
        self._follow(target)
        return target

    def _follow(self, target: str) -> None:
        self.path = target
        self._snapshots.move(target)
        for segment in self._segments:
            segment.move(target)
