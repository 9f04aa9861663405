"""The moving side of a partition log: what a copy in another log dir must hold, and going on in that copy (KIP-113).

The copy has the same files, so that everything in memory stays true: offsets, positions, epochs, producers. Knows
nothing of how the copy is made.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError, require
from crabka.formats.file_names import LOG_SUFFIX, offset_name
from crabka.log.partition.state import LogState
from crabka.log.segment.caches import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.formats.transaction_index import AbortedTransaction
    from crabka.log.segment.segment import Segment


class CopyableSegment(NamedTuple):
    """A segment as it is now: later batches come behind `size`."""

    segment: Segment
    base_offset: int
    size: int
    # Behind its last record, or where the next segment begins.
    end_offset: int
    is_sealed: bool


class SmallFiles(NamedTuple):
    """What belongs to a log beside its segments, as it is now."""

    epochs: bytes
    # Offsets of the producer snapshots, and where they lie.
    snapshots: Sequence[tuple[int, str]]
    # The aborted transactions of the active segment; the others have index files.
    active_base_offset: int
    aborted: Sequence[AbortedTransaction]


class LogMoving(LogState):
    """What a move to another log dir asks of a log."""

    def copyable_segments(self) -> list[CopyableSegment]:
        """Return all segments, the active one last."""
        segments, end = self._segments, self.log_end_offset
        return [
            CopyableSegment(
                each, each.base_offset, each.size, segments.upper_bound(index, end), each is not self._active
            )
            for index, each in enumerate(segments)
        ]

    def small_files(self) -> SmallFiles:
        """Return what else a copy needs. May read the transaction index of the active segment."""
        with self._storage_errors():
            return SmallFiles(
                epochs=self.leader_epochs.encode(),
                snapshots=[(offset, self._snapshots.path(offset)) for offset in self._snapshots.offsets],
                active_base_offset=self._active.base_offset,
                aborted=tuple(self._active.aborted()),
            )

    def open_copy(self, directory: str) -> Handle:
        """Return the file that appends would go to in a copy. May run in any thread.

        Raises OSError, and CorruptDataError if the copy is not as long as the log.
        """
        path = f"{directory}/{offset_name(self._active.base_offset)}{LOG_SUFFIX}"
        handle = Handle(self._context.fs.open(path))
        for segment in self._segments:
            copied = f"{directory}/{offset_name(segment.base_offset)}{LOG_SUFFIX}"
            size = self._context.fs.stat(copied).size_bytes
            if size != segment.size:
                raise CorruptDataError(copied, f"{size} bytes, and {segment.size} in {posixpath.dirname(self.path)}")
        return handle

    def rehome(self, directory: str, active: Handle) -> None:
        """Go on in a copy that is complete and durable; `active` comes from `open_copy`.

        Whoever reads the old files keeps them open.
        """
        require(self._pending is None, f"{self.topic}-{self.partition}: the log changes its dir during an append")
        for segment in self._segments:
            segment.rehome(directory, active if segment is self._active else None)
        self._snapshots.move(directory)
        self.path = directory
        self._unsynced.clear()
        self._durable_deletions = self._deletions
        # The copy has none yet.
        self._aborted_notes = {}
        self._write_aborted_note()
        # A stop must write what belongs to a clean one: indexes and a snapshot.
        self._settled_shape = None
        self._note_names()
        self.leader_epochs.note_unsaved()
        # One that runs is about the old directory.
        self._abandon_flush()
