"""Kafka's primitive types as bytes, for the packers of this package. Compact forms are KIP-482."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import NamedTuple

pack_i16 = struct.Struct(">h").pack
pack_i32 = struct.Struct(">i").pack

_SMALL_UVARINTS = tuple(bytes((value,)) for value in range(128))
_CACHED_NAMES = 4096


class NodeEndpoint(NamedTuple):
    """Where a leader named in a response can be reached (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 128:
        return _SMALL_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string(text: str | None) -> bytes:
    """Return a nullable string with its length + 1 as varint."""
    if text is None:
        return b"\0"
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def legacy_string(text: str | None) -> bytes:
    """Return a nullable string with a 16-bit length."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return pack_i16(len(raw)) + raw


# Topic names repeat with every request.
compact_name = functools.lru_cache(_CACHED_NAMES)(compact_string)
legacy_name = functools.lru_cache(_CACHED_NAMES)(legacy_string)


def node_endpoints_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged fields of a response whose only tagged field, number 0, is `node_endpoints`."""
    if not endpoints:
        return b"\0"
    items = [
        pack_i32(node_id) + compact_string(host) + pack_i32(port) + compact_string(rack) + b"\0"
        for node_id, host, port, rack in endpoints
    ]
    body = uvarint(len(items) + 1) + b"".join(items)
    return b"\x01\x00" + uvarint(len(body)) + body
