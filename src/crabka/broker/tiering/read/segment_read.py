"""Which bytes of one remote segment answer a fetch: whole batches, the first of which holds the wanted offset.

The offset index says where to look. Nothing is checked here but lengths: `verified_read` checks the outcome, so that
neither a wrong index nor a damaged batch leads to a wrong answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.log.segment.scan import SMALL_CHUNK_BYTES, find_batch
from crabka.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, parse_header
from crabka.remote.errors import RemoteBackendError

if TYPE_CHECKING:
    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.segment_source import SegmentSource
    from crabka.formats.offset_index import OffsetIndex
    from crabka.ports import Buffer, Payload
    from crabka.records.header import BatchHeader

_MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD


class OverrunError(RemoteBackendError):
    """A batch extends past the end of its segment, or past the start of another batch."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"the batch of offset {offset} extends past the end of its segment, or past the start of the next batch"
        )


class WantedBytes(NamedTuple):
    """What a reader wants of a segment."""

    offset: int
    max_bytes: int
    # Batches that begin at or after this offset are not returned.
    upper_offset: int
    # Whether the first batch comes even if it is larger than `max_bytes` (KIP-74).
    min_one_batch: bool


class SegmentPart(NamedTuple):
    """Whole batches of a segment."""

    payloads: list[Payload]
    byte_count: int
    # After the last batch, in offsets and in bytes.
    next_offset: int
    end_position: int
    # The base offset of the batch that was found for the wanted offset.
    first_offset: int


async def locate(
    source: SegmentSource, index: OffsetIndex, offset: int, deadline: Deadline, span: tuple[int, int] | None = None
) -> tuple[int, BatchHeader] | None:
    """Return position and header of the first batch that ends at or after an offset, None if there is none.

    `span` are the positions between which to look, by default all. Raises RemoteWaitOverError, RemoteStorageError.
    """
    missing = (0, 0)
    # How much there is at positions where not all came in time.
    short: dict[int, int] = {}

    def peek(length: int, position: int) -> Buffer | None:
        nonlocal missing
        missing = (short.get(position, length), position)
        return source.peek(*missing)

    start, end = (0, source.size) if span is None else span
    while (found := find_batch(peek, max(start, index.floor_position(offset)), end, offset)) is None:
        length, position = missing
        loaded = await source.load(length, position, deadline)
        if loaded < length:
            if loaded < HEADER_SIZE:
                raise RemoteWaitOverError
            short[position] = loaded
    position, header = found
    return None if header is None else (position, header)


async def read_part(
    source: SegmentSource,
    index: OffsetIndex,
    wanted: WantedBytes,
    deadline: Deadline,
    *,
    span: tuple[int, int] | None = None,
) -> SegmentPart | None:
    """Return the batches from the one that holds the offset on; None if the segment has no such batch.

    No batches at all come if the limits do not allow for the first one. What is not there in time is left out. Raises
    RemoteWaitOverError if not even the first batch is, OverrunError and other RemoteStorageErrors.
    """
    end = source.size if span is None else span[1]
    found = await locate(source, index, wanted.offset, deadline, span)
    if found is None:
        return None
    position, first = found
    if position + first.size_in_bytes > min(end, index.position_after(wanted.offset) or end):
        raise OverrunError(wanted.offset)
    length = min(wanted.max_bytes, end - position)
    if first.size_in_bytes > length:
        length = first.size_in_bytes if wanted.min_one_batch else 0
    if length <= 0 or first.base_offset >= wanted.upper_offset:
        return SegmentPart([], 0, wanted.offset, position, first.base_offset)
    loaded = await source.load(length, position, deadline)
    if loaded < first.size_in_bytes:
        raise RemoteWaitOverError
    part_end, next_offset = _whole_batches(source, index, (position, position + loaded), first, wanted.upper_offset)
    size = part_end - position
    return SegmentPart(source.payloads(size, position), size, next_offset, part_end, first.base_offset)


def _whole_batches(
    source: SegmentSource, index: OffsetIndex, span: tuple[int, int], first: BatchHeader, upper_offset: int
) -> tuple[int, int]:
    """Return where whole batches below the upper offset end, and the offset after them. All bytes are loaded."""
    position, end = span
    first_end = position + first.size_in_bytes
    # All batches before an indexed one that ends at or below the limit lie below it.
    near = min(index.batch_start_before(end - HEADER_SIZE), index.floor_position(upper_offset))
    if near > first_end:
        found = _walk(source, near, end, upper_offset)
        if found is not None and found[1] > first.last_offset:
            return found
    return _walk(source, first_end, end, upper_offset) or (first_end, first.next_offset)


def _walk(source: SegmentSource, position: int, end: int, upper_offset: int) -> tuple[int, int] | None:
    """Return where the last whole batch ends and the offset after it.

    None if no batch can begin at the position, or if it starts after the upper offset, as others may too.
    """
    found: tuple[int, int] | None = None
    while position + HEADER_SIZE <= end:
        window = source.peek(min(SMALL_CHUNK_BYTES, end - position), position)
        if window is None:
            return found
        inside = 0
        while inside + HEADER_SIZE <= len(window):
            header = parse_header(window, inside)
            if header.magic != MAGIC_V2 or header.batch_length < _MIN_BATCH_LENGTH:
                return found
            following = position + inside + header.size_in_bytes
            if following > end or header.base_offset >= upper_offset:
                is_near = header.base_offset <= upper_offset
                return found or ((position + inside, header.base_offset) if is_near else None)
            found = (following, header.next_offset)
            inside = following - position
        position += inside
    return found
