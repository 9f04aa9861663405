"""Walking over a segment batch by batch with every check that bytes allow, past what is damaged.

Recovery stops at the first batch that is wrong, because what follows a torn write was never acknowledged. Here the
rest counts: a walk finds the next whole batch after a damaged one. Works in bounded memory; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from crabka.ports import Buffer
from crabka.records.header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    crc_valid,
    parse_header,
    unpack_offset_and_length,
)

CHUNK_BYTES: Final = 256 * 1024
_MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
NO_EPOCH: Final = -1
_MAGIC: Final = bytes([MAGIC_V2])


class ReadableBytes(Protocol):
    """A file, or an object of the tier that is read like one."""

    def pread(self, length: int, position: int, /) -> Buffer:
        """Read up to `length` bytes; fewer only at the end."""
        ...


class OffsetRules(NamedTuple):
    """Which offsets the batches of a segment may have."""

    base_offset: int
    # The next segment begins here, or the log ends.
    end_offset: int
    # No batch is of a later leader epoch.
    max_epoch: int


class _Place(NamedTuple):
    """The least offset and leader epoch that the next batch may have; compaction leaves holes between offsets."""

    offset: int
    epoch: int


class WholeBatch(NamedTuple):
    """A batch that passed all checks."""

    position: int
    header: BatchHeader
    data: memoryview

    @property
    def end(self) -> int:
        """After its last byte."""
        return self.position + len(self.data)


class Gap(NamedTuple):
    """Bytes in which no whole batch was found, and the offsets that are missing for it."""

    position: int
    end: int
    offset: int
    end_offset: int
    reason: str


class BatchWalk:
    """One walk over a file that may be damaged."""

    def __init__(self, file: ReadableBytes, size: int, rules: OffsetRules) -> None:
        self._file = file
        self._size = size
        self._rules = rules
        self._chunk = memoryview(b"")
        self._chunk_start = 0

    def pieces(self) -> Iterator[WholeBatch | Gap]:
        """Yield what the file consists of, without holes: whole batches, and gaps where there are none.

        Base offset and leader epoch are not covered by the checksum. Where they go back from one batch to the next, the
        one is wrong that had made a jump before; so a batch counts only when the next one was seen.
        """
        position, place = 0, _Place(self._rules.base_offset, NO_EPOCH)
        held: tuple[WholeBatch, _Place] | None = None
        while position < self._size:
            found = self.batch_at(position, place)
            if isinstance(found, str) and held is not None and self._is_first_wrong(position, *held):
                batch, place = held
                position, held = batch.position, None
                found = "its offset or leader epoch is above that of the next batch"
            if held is not None:
                yield held[0]
                held = None
            if isinstance(found, str):
                gap = self._gap(position, place, found)
                yield gap
                position, place = gap.end, _Place(gap.end_offset, place.epoch)
                continue
            held = (found, place)
            position, place = found.end, _Place(found.header.next_offset, found.header.partition_leader_epoch)
        if held is not None:
            yield held[0]

    def _is_first_wrong(self, position: int, held: WholeBatch, before: _Place) -> bool:
        """Return whether the batch at `position` fits after the batch before the held one, which made a jump."""
        header = held.header
        if header.base_offset == before.offset and header.partition_leader_epoch == before.epoch:
            return False
        following = self.batch_at(position, _Place(before.offset + header.last_offset_delta + 1, before.epoch))
        return not isinstance(following, str)

    def _gap(self, position: int, place: _Place, reason: str) -> Gap:
        following = self._next_whole(position, place)
        if following is None:
            return Gap(position, self._size, place.offset, self._rules.end_offset, reason)
        return Gap(position, following.position, place.offset, following.header.base_offset, reason)

    def batch_at(self, position: int, place: _Place) -> WholeBatch | str:
        """Return the batch at a position, or what is wrong with it."""
        if self._size - position < HEADER_SIZE:
            return f"{self._size - position} bytes that are no batch"
        header = parse_header(self._bytes(position, HEADER_SIZE))
        size = header.batch_length + LOG_OVERHEAD
        if header.batch_length < _MIN_BATCH_LENGTH or position + size > self._size:
            return f"a batch of {header.batch_length} bytes cannot be there"
        if header.magic != MAGIC_V2:
            return f"unknown batch format {header.magic}"
        wrong = self._wrong_place(header, place, is_last=position + size == self._size)
        if wrong:
            return wrong
        data = self._bytes(position, size)
        if len(data) < size or not crc_valid(data, 0, header):
            return "the checksum (CRC-32C) does not match"
        return WholeBatch(position, header, data)

    def _wrong_place(self, header: BatchHeader, place: _Place, *, is_last: bool) -> str:
        if header.last_offset_delta < 0 or header.base_offset < place.offset:
            return f"offset {header.base_offset} where {place.offset} is expected"
        if header.last_offset >= self._rules.end_offset:
            return f"offset {header.last_offset} is beyond {self._rules.end_offset}, where the segment ends"
        epoch = header.partition_leader_epoch
        if epoch < place.epoch and epoch != NO_EPOCH:
            return f"leader epoch {epoch} after {place.epoch}"
        if is_last and epoch > self._rules.max_epoch:
            # The others are known by their successors to have a wrong epoch.
            return f"leader epoch {epoch}, and {self._rules.max_epoch} is the last one"
        return ""

    def _next_whole(self, position: int, place: _Place) -> WholeBatch | None:
        """Return the first whole batch after a damaged one."""
        by_length = self._by_own_length(position, place)
        if by_length is not None:
            return by_length
        # The magic byte leads to what may be a header; offsets and checksum decide.
        at = position + 1
        while at + HEADER_SIZE <= self._size:
            window = self._bytes(at, min(CHUNK_BYTES, self._size - at))
            content, start = window.tobytes(), MAGIC_POSITION
            while (start := content.find(_MAGIC, start)) >= 0:
                found = self._candidate(at + start - MAGIC_POSITION, content, start - MAGIC_POSITION, place)
                if found is not None:
                    return found
                start += 1
            at += max(1, len(content) - MAGIC_POSITION)
        return None

    def _by_own_length(self, position: int, place: _Place) -> WholeBatch | None:
        # Most damage leaves the length alone.
        head = self._bytes(position, LOG_OVERHEAD)
        if len(head) < LOG_OVERHEAD:
            return None
        _, length = unpack_offset_and_length(head)
        following = position + length + LOG_OVERHEAD
        if length < _MIN_BATCH_LENGTH or following >= self._size:
            return None
        return self._plausible(following, place)

    def _candidate(self, position: int, content: bytes, start: int, place: _Place) -> WholeBatch | None:
        if len(content) - start < LOG_OVERHEAD:
            return None
        offset, length = unpack_offset_and_length(content, start)
        if (
            not place.offset < offset < self._rules.end_offset
            or not _MIN_BATCH_LENGTH <= length < self._size - position
        ):
            return None
        return self._plausible(position, place)

    def _plausible(self, position: int, place: _Place) -> WholeBatch | None:
        if self._size - position < HEADER_SIZE:
            return None
        base_offset, _ = unpack_offset_and_length(self._bytes(position, LOG_OVERHEAD))
        if not place.offset < base_offset < self._rules.end_offset:
            return None
        found = self.batch_at(position, place)
        return None if isinstance(found, str) else found

    def _bytes(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position` on, as far as the file has them."""
        start = position - self._chunk_start
        if start < 0 or start + size > len(self._chunk):
            self._chunk = memoryview(self._file.pread(max(CHUNK_BYTES, size), position))
            self._chunk_start, start = position, 0
        return self._chunk[start : start + size]
