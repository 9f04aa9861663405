"""The directory of a partition log: renaming, deletion, and the change to a copy in another log dir (KIP-113).

The copy has the same files, so that everything in memory stays valid: offsets, positions, epochs, producers. Does not
know how the copy is made.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError, require
from crabka.formats.file_names import LOG_SUFFIX, DirectoryKind, marked_name, offset_name
from crabka.log.segment.caches import Handle

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from crabka.formats.transaction_index import AbortedTransaction
    from crabka.log.partition.durability import LogDurability
    from crabka.log.partition.state import LogState, MirrorListener
    from crabka.log.segment.segment import Segment


class CopyableSegment(NamedTuple):
    """A segment as it is now: later batches begin at `size`."""

    segment: Segment
    base_offset: int
    size: int
    # After its last record, or where the next segment begins.
    end_offset: int
    is_sealed: bool


class SmallFiles(NamedTuple):
    """What belongs to a log beside its segments, as it is now."""

    epochs: bytes
    # Offsets of the producer snapshots, and their paths.
    snapshots: Sequence[tuple[int, str]]
    # The aborted transactions of the active segment; the others have index files.
    active_base_offset: int
    aborted: Sequence[AbortedTransaction]


class LogMoving:
    """Moves the log to another name or another log dir."""

    __slots__ = ("_durability", "_state")

    def __init__(self, state: LogState, durability: LogDurability) -> None:
        self._state = state
        self._durability = durability

    # -- names ---------------------------------------------------------------------------------------------------

    def rename_directory(self, name: str) -> str:
        """Move the log to another name in the same log dir, durably; return the new path. Raises StorageError."""
        state = self._state
        target = f"{state.log_dir}/{name}"
        with state.storage_errors():
            self.begin_delete(target)
            state.context.fs.fsync_dir(state.log_dir)
        self._follow(target)
        return target

    def delete(self, unique: uuid.UUID, now_ms: int) -> str:
        """Rename the directory to `-delete` and schedule its removal; return its new path. Raises StorageError."""
        path = self.rename_directory(marked_name(self._state.topic_partition, DirectoryKind.DELETE, unique))
        self.finish_delete(path, now_ms)
        return path

    def begin_delete(self, target: str) -> None:
        """Rename the directory to `target`; `finish_delete` follows on the loop. Runs in a thread; raises OSError."""
        # It would write to the files of the next log of this name.
        self._durability.abandon_flush()
        self._state.context.fs.rename(self._state.path, target)

    def finish_delete(self, path: str, now_ms: int) -> None:
        """Close a log whose directory was renamed to `path`, and schedule the removal of that directory."""
        self._follow(path)
        self._state.close_files()
        self._state.context.schedule_deletion(path, now_ms + self._state.config.file_delete_delay_ms)

    def _follow(self, target: str) -> None:
        state = self._state
        state.path = target
        state.snapshots.move(target)
        for segment in state.segments:
            segment.move(target)

    # -- a copy in another log dir -------------------------------------------------------------------------------

    @property
    def mirror(self) -> MirrorListener | None:
        """The listener that is notified of truncations, if there is one."""
        return self._state.mirror

    @mirror.setter
    def mirror(self, mirror: MirrorListener | None) -> None:
        self._state.mirror = mirror

    @property
    def is_held(self) -> bool:
        """Whether the log must not roll, be cut or lose segments, because it is about to move."""
        return self._state.is_held

    @is_held.setter
    def is_held(self, is_held: bool) -> None:
        self._state.is_held = is_held

    def copyable_segments(self) -> list[CopyableSegment]:
        """Return all segments, the active one last."""
        state, segments, end = self._state, self._state.segments, self._state.log_end_offset
        return [
            CopyableSegment(
                each, each.base_offset, each.size, segments.upper_bound(index, end), each is not state.active
            )
            for index, each in enumerate(segments)
        ]

    def small_files(self) -> SmallFiles:
        """Return what else a copy needs. May read the transaction index of the active segment."""
        state = self._state
        with state.storage_errors():
            return SmallFiles(
                epochs=state.leader_epochs.encode(),
                snapshots=[(offset, state.snapshots.path(offset)) for offset in state.snapshots.offsets],
                active_base_offset=state.active.base_offset,
                aborted=tuple(state.active.aborted()),
            )

    def open_copy(self, directory: str) -> Handle:
        """Return the file that appends would go to in a copy. May run in any thread.

        Raises OSError, and CorruptDataError if the copy is not as long as the log.
        """
        state, fs = self._state, self._state.context.fs
        path = f"{directory}/{offset_name(state.active.base_offset)}{LOG_SUFFIX}"
        handle = Handle(fs.open(path))
        for segment in state.segments:
            copied = f"{directory}/{offset_name(segment.base_offset)}{LOG_SUFFIX}"
            size = fs.stat(copied).size_bytes
            if size != segment.size:
                raise CorruptDataError(copied, f"{size} bytes, and {segment.size} in {posixpath.dirname(state.path)}")
        return handle

    def rehome(self, directory: str, active: Handle) -> None:
        """Continue in a copy that is complete and durable; `active` comes from `open_copy`.

        Readers of the old files keep them open.
        """
        state = self._state
        require(state.pending is None, f"{state.topic}-{state.partition}: the log changes its dir during an append")
        for segment in state.segments:
            segment.rehome(directory, active if segment is state.active else None)
        state.snapshots.move(directory)
        state.path = directory
        state.unsynced.clear()
        # The copy has none yet.
        state.aborted_notes = {}
        state.write_aborted_note()
        state.name_changes += 1
        state.leader_epochs.note_unsaved()
        self._durability.note_rehomed()
