"""Checks whole batches of a remote segment before they are served. PURE but for what it reads.

Batches follow one another without a hole in lengths and offsets, from a place that the index or the metadata of the
segment names to the end of the part. So the fields outside the checksums are checked by their neighbours, and the
leader epochs by the metadata. Whatever is not exactly so raises DoubtError: a survey of the segment says what is wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CrabkaError
from crabka.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, BatchHeader, crc_valid, parse_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import Buffer
    from crabka.remote.segments import RemoteLogSegmentMetadata

    ReadBytes = Callable[[int, int], Buffer]

WINDOW_BYTES: Final = 1024 * 1024
_NO_EPOCH: Final = -1


class DoubtError(CrabkaError):
    """Bytes of a segment, or what its index says of them, cannot be right."""


class PartFacts(NamedTuple):
    """What the metadata says of the batches of a segment."""

    start_offset: int
    end_offset: int
    size: int
    leader_epochs: tuple[tuple[int, int], ...]
    # Whether a survey has found that offsets are missing between whole batches, as compaction leaves them.
    has_holes: bool = False

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of an offset, None before all that are known."""
        index = bisect_right(self.leader_epochs, offset, key=lambda each: each[1]) - 1
        return self.leader_epochs[index][0] if index >= 0 else None


def facts_of(segment: RemoteLogSegmentMetadata) -> PartFacts:
    """Return what the metadata of a segment says."""
    return PartFacts(segment.start_offset, segment.end_offset, segment.segment_size_bytes, tuple(segment.leader_epochs))


class PartToCheck(NamedTuple):
    """Batches in [position, end), of which the first one holds an offset."""

    # A batch begins there at or before `position`, by the index or because the segment does.
    start_position: int
    # A batch ends with this offset at or before the first one of the part, by the index; None at the start.
    indexed_offset: int | None
    # The offset that the batch at the start begins with; None if only the index has it.
    start_offset: int | None
    offset: int
    position: int
    end: int
    next_offset: int
    # Batches up to here are checked as well, as long as they are whole.
    ahead_end: int


class CheckedPart(NamedTuple):
    """What was found to be whole: bytes, and the next offset."""

    start_position: int
    end: int


class PartCheck:
    """One check. For a thread."""

    def __init__(self, read: ReadBytes, facts: PartFacts, part: PartToCheck) -> None:
        self._read = read
        self._facts = facts
        self._part = part
        self._window = memoryview(b"")
        self._window_start = 0
        self._indexed = part.indexed_offset

    def run(self) -> CheckedPart:
        """Check all batches of the part. Raises DoubtError, and what the reading raises."""
        part = self._part
        position, expected = part.start_position, part.start_offset
        while position < part.end:
            if position < part.position:
                header = self._header(position, part.position, expected, HEADER_SIZE)
            else:
                header = self._header(position, part.end, expected, WINDOW_BYTES)
                self._check_crc(position, header)
                if position == part.position and not self._holds(header):
                    raise DoubtError(f"the batch at position {position} does not hold offset {part.offset}")
            position += header.size_in_bytes
            expected = header.next_offset
        if expected != part.next_offset:
            raise DoubtError(f"the batches up to position {position} end before offset {expected}")
        return CheckedPart(part.start_position, self._check_ahead(position, expected))

    def _check_ahead(self, position: int, expected: int) -> int:
        """Check batches ahead of a read; return where the whole ones end."""
        try:
            while position < self._part.ahead_end:
                header = self._header(position, self._facts.size, expected, WINDOW_BYTES)
                self._check_crc(position, header)
                position, expected = position + header.size_in_bytes, header.next_offset
        except DoubtError:
            # The reader of it finds out.
            return position
        return position

    def _holds(self, header: BatchHeader) -> bool:
        # Between batches with a hole the offset may be one that is missing.
        return header.last_offset >= self._part.offset and (
            self._facts.has_holes or header.base_offset <= self._part.offset
        )

    def _header(self, position: int, end: int, expected: int | None, window_bytes: int) -> BatchHeader:
        if self._facts.size - position < HEADER_SIZE:
            raise DoubtError(f"no batch can begin at position {position}")
        header = parse_header(self._bytes(position, HEADER_SIZE, window_bytes))
        following = position + header.batch_length + LOG_OVERHEAD
        if header.magic != MAGIC_V2 or header.batch_length < HEADER_SIZE - LOG_OVERHEAD or following > end:
            raise DoubtError(f"there is no whole batch at position {position}")
        self._check_offsets(position, header, expected)
        if following == self._facts.size and header.last_offset != self._facts.end_offset:
            raise DoubtError(f"the segment ends with offset {header.last_offset}, not {self._facts.end_offset}")
        epoch = self._facts.epoch_of(header.base_offset)
        if epoch is not None and header.partition_leader_epoch not in (epoch, _NO_EPOCH):
            raise DoubtError(f"leader epoch {header.partition_leader_epoch} at position {position}, not {epoch}")
        return header

    def _check_offsets(self, position: int, header: BatchHeader, expected: int | None) -> None:
        base, last = header.base_offset, header.last_offset
        is_next = expected is None or base == expected or (self._facts.has_holes and base > expected)
        if not is_next or header.last_offset_delta < 0 or last > self._facts.end_offset:
            raise DoubtError(f"offset {base} at position {position}, not {expected}")
        if self._indexed is not None and last >= self._indexed:
            if last != self._indexed:
                raise DoubtError(f"the index has offset {self._indexed}, with which no batch ends")
            self._indexed = None

    def _check_crc(self, position: int, header: BatchHeader) -> None:
        size = header.size_in_bytes
        if not crc_valid(self._bytes(position, size, WINDOW_BYTES), 0, header):
            raise DoubtError(f"the checksum of the batch of offset {header.base_offset} does not match")

    def _bytes(self, position: int, size: int, window_bytes: int) -> memoryview:
        start = position - self._window_start
        if start < 0 or start + size > len(self._window):
            length = min(max(window_bytes, size), self._facts.size - position)
            self._window, self._window_start, start = memoryview(self._read(length, position)), position, 0
            if len(self._window) < size:
                raise DoubtError(f"the segment ends within a batch, at position {position + len(self._window)}")
        return self._window[start : start + size]
