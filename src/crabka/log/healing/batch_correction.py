"""Batches of a damaged range as they were written, found from what is left of them and from their neighbours. PURE.

The last resort, when no other copy of the range exists. What the checksum covers is corrected by `records.correction`.
The bytes before it follow from the neighbours, with the checksum as the witness:

- the length must make the checksum fit and lead to the next batch or to the end of the range;
- the base offset is rebuilt only if the batches then fill the offsets of the range exactly, so that no other fits;
- the leader epoch is the one that is known for the offset; the format is the only one that is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from crabka.ports import Buffer
from crabka.records.correction import Change, Correction, correct_content, is_sound
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    EPOCH_POSITION,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    batch_crc,
    parse_header,
    patched_prefix,
    unpack_offset_and_length,
)

_MIN_BATCH_BYTES: Final = HEADER_SIZE
_NO_EPOCH: Final = -1


class RangeFacts(NamedTuple):
    """What is known of a damaged range besides its bytes: the offsets [offset, end_offset), and their leader epochs."""

    offset: int
    end_offset: int
    # None if it is not known.
    epoch_of: Callable[[int], int | None]
    max_decompressed_bytes: int


def correct_range(old: Buffer, facts: RangeFacts) -> Correction | None:
    """Return the bytes of a range as they were written, with the changes in it; None if that cannot be known."""
    view = memoryview(old).cast("B")
    contents: list[bytes] = []
    while view[(position := sum(map(len, contents))) :]:
        content = _content(view[position:], facts)
        if content is None:
            return None
        contents.append(content)
    batches = _with_stated_offsets(contents, facts) or _with_next_offsets(contents, facts)
    data = b"".join(batches or ())
    if not data or not all(is_sound(batch, facts.max_decompressed_bytes) for batch in batches or ()):
        return None
    changes = tuple(Change(at, view[at], data[at]) for at in _differing(view, data))
    return Correction(data, changes) if changes else None


def _with_stated_offsets(contents: list[bytes], facts: RangeFacts) -> list[bytes] | None:
    """Return batches with the base offsets that they have, None if these cannot be right."""
    expected = facts.offset
    for content in contents:
        header = parse_header(content)
        if header.base_offset < expected:
            return None
        expected = header.next_offset
    if expected > facts.end_offset:
        return None
    return [_with_prefix(content, parse_header(content).base_offset, facts) for content in contents]


def _with_next_offsets(contents: list[bytes], facts: RangeFacts) -> list[bytes] | None:
    """Return batches whose offsets follow one another, None if they do not fill the range."""
    batches, expected = [], facts.offset
    for content in contents:
        batches.append(_with_prefix(content, expected, facts))
        expected = parse_header(batches[-1]).next_offset
    return batches if expected == facts.end_offset else None


def _with_prefix(content: bytes, base_offset: int, facts: RangeFacts) -> bytes:
    stated, epoch = parse_header(content).partition_leader_epoch, facts.epoch_of(base_offset)
    if epoch is None or stated == _NO_EPOCH:
        epoch = stated
    return patched_prefix(base_offset, len(content) - LOG_OVERHEAD, epoch) + bytes([MAGIC_V2]) + content[CRC_POSITION:]


def _content(rest: memoryview, facts: RangeFacts) -> bytes | None:
    """Return the batch at the start with the right length and a sound checksum; what comes before it may be wrong."""
    if len(rest) < _MIN_BATCH_BYTES:
        return None
    _, length = unpack_offset_and_length(rest)
    stated = length + LOG_OVERHEAD
    if _fits(rest, stated):
        return bytes(rest[:stated])
    by_length = [size for size in _other_sizes(rest) if _is_followed(rest, size) and _fits(rest, size)]
    if by_length:
        return bytes(rest[: by_length[0]]) if len(by_length) == 1 else None
    if not _MIN_BATCH_BYTES <= stated <= len(rest) or not _is_followed(rest, stated):
        return None
    # Where the damage hit the checked part, everything before it is right but for a second damage.
    prefix = patched_prefix(0, length, 0) + bytes([MAGIC_V2])
    corrected = correct_content(prefix + bytes(rest[CRC_POSITION:stated]), facts.max_decompressed_bytes)
    return None if corrected is None else bytes(rest[:CRC_POSITION]) + corrected.data[CRC_POSITION:]


def _fits(rest: memoryview, size: int) -> bool:
    if not _MIN_BATCH_BYTES <= size <= len(rest):
        return False
    return bool(parse_header(rest).crc == batch_crc(rest, 0, size))


def _other_sizes(rest: memoryview) -> Iterator[int]:
    """Yield the sizes of which the stated one differs by one byte."""
    stated = int.from_bytes(rest[LENGTH_POSITION:EPOCH_POSITION], "big")
    for shift in range(0, 32, 8):
        for change in range(1, 256):
            size = (stated ^ change << shift) + LOG_OVERHEAD
            if _MIN_BATCH_BYTES <= size <= len(rest):
                yield size


def _is_followed(rest: memoryview, size: int) -> bool:
    """Return whether the range ends after a batch of this size, or another batch may begin there."""
    following = rest[size:]
    if len(following) < _MIN_BATCH_BYTES:
        return not following
    return following[MAGIC_POSITION] == MAGIC_V2 and unpack_offset_and_length(following)[1] >= (
        _MIN_BATCH_BYTES - LOG_OVERHEAD
    )


def _differing(old: memoryview, new: bytes) -> Iterator[int]:
    if old == new:
        return
    for start in range(0, len(new), ATTRIBUTES_POSITION):
        end = start + ATTRIBUTES_POSITION
        if old[start:end] != new[start:end]:
            yield from (at for at in range(start, min(end, len(new))) if old[at] != new[at])
