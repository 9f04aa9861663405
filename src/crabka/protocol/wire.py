"""The smallest pieces of the wire format, read from untrusted bytes."""

from __future__ import annotations

from crabka.errors import WireError


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most five bytes and the position after it. Raises WireError, IndexError."""
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise WireError("a varint is longer than five bytes")


def skip_tagged_fields(view: memoryview, position: int) -> int:
    """Return the position after unknown tagged fields (KIP-482).

    The position may lie past the end of the view; the caller checks. Raises WireError, IndexError.
    """
    count, position = read_uvarint(view, position)
    if count * 2 > len(view) - position:
        raise WireError(f"{count} tagged fields are claimed in {len(view) - position} bytes")
    for _ in range(count):
        _tag, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
    return position
