"""What is damaged in one remote segment, and an offset index that is right: made once when a read met what cannot be.

Reads of the segment go by it for a while: corrected batches lie over the damaged ones, and reads end before those that
nothing can correct.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.read.healing.segment_walk import DamagedStretch, batches_of, walk_segment
from crabka.formats.offset_index import OffsetIndex
from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

INDEX_INTERVAL_BYTES: Final = 4096


class DamagedSegmentError(RemoteStorageError):
    """The wanted batch is damaged in the tier, and nothing here can put it right."""


class SoundSpan(NamedTuple):
    """Bytes [position, end) of a segment in which nothing is lost; the first batch begins at `offset` or above."""

    position: int
    offset: int
    end: int


class SegmentSurvey(NamedTuple):
    """The state of a segment."""

    offsets: OffsetIndex
    # In order.
    corrected: tuple[DamagedStretch, ...]
    lost: tuple[DamagedStretch, ...]
    has_holes: bool
    # What is wrong with the index of the tier, empty if nothing is.
    index_fault: str

    def span_of(self, offset: int, size: int) -> SoundSpan:
        """Return where nothing is lost around an offset of a segment of this size.

        Raises DamagedSegmentError if the offset itself is lost.
        """
        number = bisect_right(self.lost, offset, key=lambda each: each.offset)
        before = self.lost[number - 1] if number else None
        if before is not None and offset < before.end_offset:
            raise DamagedSegmentError(f"offsets {before.offset} to {before.end_offset - 1}: {before.reason}")
        end = self.lost[number].position if number < len(self.lost) else size
        if before is None:
            return SoundSpan(0, self.offsets.base_offset, end)
        return SoundSpan(before.end, before.end_offset, end)


def survey_segment(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, index: OffsetIndex, max_decompressed_bytes: int
) -> SegmentSurvey:
    """Read a segment as a whole and compare the index with it. For a thread. Raises RemoteStorageError."""
    built = OffsetIndex(segment.start_offset)
    corrected: list[DamagedStretch] = []
    lost: list[DamagedStretch] = []
    has_holes, unindexed, expected = False, 0, segment.start_offset
    claims = _IndexClaims(index)
    for piece in walk_segment(storage, segment, max_decompressed_bytes):
        if isinstance(piece, DamagedStretch):
            if piece.data:
                corrected.append(piece)
            else:
                lost.append(piece)
                claims.pass_by(piece.position, piece.end)
                expected = piece.end_offset
        for position, header, data in batches_of(piece):
            claims.see(position, header.last_offset)
            has_holes = has_holes or header.base_offset > expected
            expected = header.next_offset
            # The first batch needs no entry.
            if position and (unindexed > INDEX_INTERVAL_BYTES or not len(built)):
                built.append(header.last_offset, position)
                unindexed = 0
            unindexed += len(data)
    return SegmentSurvey(built, tuple(corrected), tuple(lost), has_holes, claims.finish())


class _IndexClaims:
    """Compares the entries of an index with batches, in the order of positions."""

    def __init__(self, index: OffsetIndex) -> None:
        self._entries = index.entries()
        self._next = 0
        # The offset with which a batch must end, by the last entry.
        self._due: int | None = None
        self._fault = ""

    def pass_by(self, position: int, end: int) -> None:
        """Believe entries that point into what is lost."""
        self._skip_to(position)
        while self._next < len(self._entries) and self._entries[self._next][1] < end:
            self._next += 1
        self._due = None

    def see(self, position: int, last_offset: int) -> None:
        """Compare with a batch. An entry may also name the end of several that were written at once."""
        self._skip_to(position)
        if self._next < len(self._entries) and self._entries[self._next][1] == position:
            if self._due is not None:
                self._note(self._next - 1)
            self._due = self._entries[self._next][0]
            self._next += 1
        if self._due is not None and last_offset >= self._due:
            if last_offset != self._due:
                self._note(self._next - 1)
            self._due = None

    def _skip_to(self, position: int) -> None:
        while self._next < len(self._entries) and self._entries[self._next][1] < position:
            self._note(self._next)
            self._next += 1

    def _note(self, number: int) -> None:
        offset, position = self._entries[number]
        self._fault = self._fault or f"entry {number} has offset {offset} at position {position}, and no batch is so"

    def finish(self) -> str:
        """Return the first fault."""
        if self._next < len(self._entries) or self._due is not None:
            self._note(min(self._next, len(self._entries) - 1))
        return self._fault
