"""The hash of the topics that a group subscribes to, by which it detects changes (KIP-1101).

XXH3 over the fields of a topic in Kafka's order; numbers are little-endian, a string is its UTF-16 code units and
their count. The same as Kafka's, so that a group that moves between Kafka and Crabka needs no new assignment.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Sequence

NO_TOPICS = 0

_FORMAT = b"\0"
_INT = Struct("<i")
_UNSIGNED_LONG = Struct("<Q")
_SIGN = 1 << 63


def topic_hash(name: str, topic_id: uuid.UUID, racks: Sequence[Iterable[str]]) -> int:
    """Return the hash of a topic; `racks` are those of the replicas of each partition."""
    parts = [_FORMAT, topic_id.bytes[7::-1], topic_id.bytes[:7:-1], _text(name), _INT.pack(len(racks))]
    for index, of_partition in enumerate(racks):
        parts.append(_INT.pack(index))
        for rack in sorted(of_partition):
            parts += (_INT.pack(len(rack)), _text(rack))
    return xxh3_64_intdigest(b"".join(parts))


def group_hash(topic_hashes: Iterable[tuple[str, int]]) -> int:
    """Return the hash of a group from the names and hashes of its topics, as a signed number."""
    ordered = sorted(topic_hashes)
    if not ordered:
        return NO_TOPICS
    hashed = xxh3_64_intdigest(b"".join(_UNSIGNED_LONG.pack(each) for _, each in ordered))
    return hashed - (1 << 64) if hashed & _SIGN else hashed


def _text(value: str) -> bytes:
    units = value.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)
