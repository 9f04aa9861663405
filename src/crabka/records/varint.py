"""Zigzag varints, as records store lengths and deltas (the signed varints of Protocol Buffers).

Knows nothing of records. Decoders are strict: at most 5 bytes for 32-bit and 10 bytes for 64-bit values.
"""

from __future__ import annotations

from crabka.ports import Buffer
from crabka.records.errors import CorruptBatchError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10

_INT32_MAX = (1 << 31) - 1


def encode_varint(value: int) -> bytes:
    """Return the zigzag varint of a signed integer of up to 64 bits."""
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def append_varint(out: bytearray, value: int) -> None:
    """Append the zigzag varint of a signed integer of up to 64 bits."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def varint_size(value: int) -> int:
    """Return how many bytes the zigzag varint of `value` takes."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    return max(1, (rest.bit_length() + 6) // 7)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (value, position after it) of a 32-bit varint.

    Raises CorruptBatchError when it is cut short or does not fit in 32 bits.
    """
    # Nearly all lengths and deltas take one or two bytes.
    if position + 1 < len(buffer):
        byte = buffer[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        second = buffer[position + 1]
        if second < 0x80:
            raw = byte & 0x7F | second << 7
            return (raw >> 1) ^ -(raw & 1), position + 2
    value, position = _decode(buffer, position, MAX_VARINT_BYTES)
    if not -_INT32_MAX - 1 <= value <= _INT32_MAX:
        raise CorruptBatchError(f"varint {value} does not fit in 32 bits")
    return value, position


def decode_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (value, position after it) of a 64-bit varint.

    Raises CorruptBatchError when it is cut short or longer than 10 bytes.
    """
    return _decode(buffer, position, MAX_VARLONG_BYTES)


def _decode(buffer: Buffer, position: int, max_bytes: int) -> tuple[int, int]:
    raw = shift = 0
    end = len(buffer)
    limit = position + max_bytes
    while position < end and position < limit:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise CorruptBatchError(f"varint is cut short or longer than {max_bytes} bytes")
