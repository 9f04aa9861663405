"""Plans for reads: which bytes of which segment serve a fetch, without reading them yet.

A plan is made on the loop and never waits for the disk: when the page cache lacks what is needed, `read_nowait`
returns None and the caller runs `read` in a thread. Everything that a plan needs is in it, so the log may roll,
truncate or delete meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from crabka.log.segment.caches import Handle
from crabka.log.segment.scan import find_batch
from crabka.ports import FileRange
from crabka.records.header import LOG_OVERHEAD, unpack_offset_and_length

if TYPE_CHECKING:
    from crabka.formats.offset_index import OffsetIndex
    from crabka.log.segment.segment import Segment
    from crabka.ports import Buffer, File, Payload

EXACT: Final = -1
_ENDLESS: Final = 1 << 63
# Fewer bytes are read and copied: that is cheaper than the calls that a range takes to be sent.
MIN_RANGE_BYTES: Final = 64 * 1024


class ReadSlice:
    """A piece of one segment, from the batch that holds `start_offset` on.

    `length` is the most that comes back, except that one whole batch is always returned if the plan allows it.
    """

    __slots__ = (
        "_find_offset",
        "_handle",
        "_index",
        "_min_one_batch",
        "_upper_offset",
        "end",
        "is_lost",
        "length",
        "position",
        "start_offset",
    )

    def __init__(
        self,
        *,
        handle: Handle | None,
        start_offset: int,
        position: int,
        end: int,
        max_bytes: int,
        find_offset: int = EXACT,
        upper_offset: int | None = None,
        min_one_batch: bool = True,
        index: OffsetIndex | None = None,
    ) -> None:
        self._handle = handle
        # Without it the batches are only read, never sent from the file.
        self._index = index
        self.start_offset = start_offset
        # The batch of `start_offset` begins here, or not before if it must still be searched for.
        self.position = position
        # No byte from here on may be returned.
        self.end = end
        self.length = min(max_bytes, end - position)
        self._find_offset = find_offset
        self._upper_offset = upper_offset
        # No batch was found although the log must have one: it is damaged.
        self.is_lost = False
        self._min_one_batch = min_one_batch

    @property
    def file(self) -> File | None:
        """The file to read from; None for an empty answer. It stays open as long as the plan lives."""
        return self._handle.file if self._handle is not None else None

    def read_nowait(self) -> Buffer | None:
        """Return the batches if they are in memory, else None."""
        if self._handle is None:
            return b""
        return self._execute(self._handle.file.pread_nowait)

    def take_nowait(self) -> Payload | None:
        """Like read_nowait, but many bytes come as a range of the file that is still to be sent.

        Such a range leaves out a last batch that `max_bytes` cuts, if the index has it: clients drop such a part.
        """
        handle, index = self._handle, self._index
        if handle is None or index is None or self.length < MIN_RANGE_BYTES:
            return self.read_nowait()
        file = handle.file
        if self._find_offset != EXACT and not self._locate(file.pread_nowait):
            return None
        length = self._range_length(file, index)
        if length < MIN_RANGE_BYTES or not file.in_memory(length, self.position):
            return self.read_nowait()
        return FileRange(file, self.position, length, handle)

    def _range_length(self, file: File, index: OffsetIndex) -> int:
        """Return how many bytes may be sent without looking at each batch; 0 if the batches must be read."""
        position, end, upper = self.position, self.position + self.length, self._upper_offset
        if upper is not None:
            # All batches before an indexed one that begins at or below the limit begin below it.
            safe_end = index.floor_position(upper)
            if end > safe_end or _batch_at(file, safe_end)[0] > upper:
                return 0
        first_end = position + _batch_at(file, position)[1]
        if first_end > end:
            return 0
        if end < self.end:
            last = index.batch_start_before(end)
            if last >= first_end and last + _batch_at(file, last)[1] > end:
                return last - position
        return self.length

    def read(self) -> bytes:
        """Return the batches; may wait for the disk."""
        if self._handle is None:
            return b""
        return bytes(self._execute(self._handle.file.pread) or b"")

    def _execute(self, read: Callable[[int, int], Buffer | None]) -> Buffer | None:
        if self._find_offset != EXACT and not self._locate(read):
            return None
        if self.position >= self.end or (self.length <= 0 and not self._min_one_batch):
            return b""
        # Even with a limit of nothing the first batch's length must be known.
        data = read(max(self.length, LOG_OVERHEAD), self.position)
        if data is None or len(data) < LOG_OVERHEAD:
            return data
        first_size = unpack_offset_and_length(data)[1] + LOG_OVERHEAD
        if first_size > self.length:
            if first_size > self.end - self.position:
                self.is_lost = self._upper_offset is None
                return b""
            if not self._min_one_batch:
                return b""
            data = read(first_size, self.position)
        if data is not None and self._upper_offset is not None:
            return _cut_at(data, self._upper_offset)
        return data

    def _locate(self, read: Callable[[int, int], Buffer | None]) -> bool:
        """Move on to the batch that holds the start offset. Return False if that must wait for the disk."""
        max_bytes = self.length
        found = find_batch(read, self.position, self.end, self._find_offset)
        if found is None:
            return False
        # Where the last segment is empty, cleaning may have taken the last batches before it.
        self.is_lost = found[1] is None and self._upper_offset is None and self.position < self.end
        self.position = found[0]
        self.length = min(max_bytes, self.end - self.position)
        self._find_offset = EXACT
        return True


def _batch_at(file: File, position: int) -> tuple[int, int]:
    """Return base offset and size of the batch that begins there; both endless if that must wait for the disk."""
    data = file.pread_nowait(LOG_OVERHEAD, position)
    if data is None or len(data) < LOG_OVERHEAD:
        return _ENDLESS, _ENDLESS
    base_offset, length = unpack_offset_and_length(data)
    return base_offset, length + LOG_OVERHEAD


def _cut_at(data: Buffer, upper_offset: int) -> Buffer:
    """Return the batches that begin below `upper_offset`."""
    position = 0
    while position + LOG_OVERHEAD <= len(data):
        base_offset, length = unpack_offset_and_length(data, position)
        if base_offset >= upper_offset:
            return data[:position]
        position += length + LOG_OVERHEAD
    return data


def empty_slice(start_offset: int) -> ReadSlice:
    """Return the plan that reads nothing."""
    return ReadSlice(handle=None, start_offset=start_offset, position=0, end=0, max_bytes=0)


def plan_in_segment(
    segment: Segment,
    start_offset: int,
    *,
    max_bytes: int,
    upper_offset: int | None,
    min_one_batch: bool,
    first_position: int = 0,
    end_position: int | None = None,
) -> ReadSlice:
    """Return the plan for a read that begins in `segment`; `upper_offset` None allows all of it.

    Only [first, end) of the file may be read: the bytes around it are damaged.
    """
    index = segment.indexes().offsets
    end = segment.size
    if upper_offset is not None:
        # A near end saves reading bytes that are cut off afterwards.
        after = index.position_after(upper_offset)
        end = segment.size if after is None else min(after, segment.size)
    if end_position is not None:
        end = min(end, end_position)
    return ReadSlice(
        handle=segment.handle(),
        start_offset=start_offset,
        position=max(index.floor_position(start_offset), first_position),
        end=end,
        max_bytes=max_bytes,
        find_offset=start_offset,
        upper_offset=upper_offset,
        min_one_batch=min_one_batch,
        index=index,
    )
