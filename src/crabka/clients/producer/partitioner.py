"""The partition of a record, as in Kafka's Java producer.

Records with a key: murmur2 of the key. Records without: one random partition at a time, and another one after the
bytes of one batch (KIP-794), so that batches fill.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash, unsigned."""
    length = len(data)
    state = _SEED ^ length
    words = length >> 2
    for word in struct.unpack_from(f"<{words}I", data):
        mixed = word * _MULTIPLIER & _MASK
        mixed ^= mixed >> _SHIFT
        state = (state * _MULTIPLIER ^ mixed * _MULTIPLIER) & _MASK
    tail = data[words << 2 :]
    if tail:
        state = (state ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    state ^= state >> 13
    state = state * _MULTIPLIER & _MASK
    return state ^ state >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key among `partition_count`, equal for all Java clients."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


@dataclass(slots=True)
class StickyPartitioner:
    """The partition for records of one topic that have no key."""

    rng: random.Random
    switch_after_bytes: int
    _current: int | None = None
    _sent_bytes: int = 0

    def choose(self, available: Sequence[int], record_bytes: int) -> int:
        """Return the partition for the next record; `available` are those with a leader, at least one."""
        current = self._current
        if current is None or current not in available or self._sent_bytes >= self.switch_after_bytes:
            others = [partition for partition in available if partition != current] or list(available)
            current = self._current = self.rng.choice(others)
            self._sent_bytes = 0
        self._sent_bytes += record_bytes
        return current
