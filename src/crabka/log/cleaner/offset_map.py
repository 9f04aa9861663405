"""The newest offset of each key, in memory of a fixed size (the idea of Kafka's SkimpyOffsetMap).

Keys are known by a 16-byte hash, so that memory depends on their number alone and not on their length: 24 bytes per
slot in one block, probed linearly. Two keys with one hash would lose a record; at 128 bits that does not happen.
An exact dict would need about ten times the memory, and any amount for long keys.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
HASH_BYTES: Final = 16
_OFFSET: Final = struct.Struct(">q")
_SLOT: Final = struct.Struct(f">{HASH_BYTES}sq")


class OffsetMap:
    """Holds `capacity` keys at most. `latest_offset` is the end of what was loaded into it."""

    __slots__ = ("_count", "_slots", "_table", "capacity", "latest_offset")

    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """Take no more than `max_bytes`, and no more than `expected_keys` need."""
        affordable = max(max_bytes // SLOT_BYTES, 1)
        wanted = int(expected_keys / load_factor) + 2
        self._slots = min(affordable, wanted)
        self.capacity = max(int(self._slots * load_factor), 1)
        # A slot is free while its offset is 0; stored offsets are one higher than real ones.
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._count = 0
        self.latest_offset = -1

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """The memory that the map takes."""
        return len(self._table)

    def put(self, key: bytes, offset: int) -> bool:
        """Remember the offset of a key, which is the newest; return False if another key has no room."""
        digest = blake2b(key, digest_size=HASH_BYTES).digest()
        position, stored = self._find(digest)
        if stored == 0:
            if self._count >= self.capacity:
                return False
            self._count += 1
        _SLOT.pack_into(self._table, position, digest, offset + 1)
        return True

    def get(self, key: bytes) -> int:
        """Return the newest offset of a key, -1 if it was not loaded."""
        return self._find(blake2b(key, digest_size=HASH_BYTES).digest())[1] - 1

    def _find(self, digest: bytes) -> tuple[int, int]:
        """Return the position of the key's slot, or of the free one for it, with the stored offset."""
        table, end = self._table, self._slots * SLOT_BYTES
        position = int.from_bytes(digest[:8], "big") % self._slots * SLOT_BYTES
        for _ in range(self._slots):
            (stored,) = _OFFSET.unpack_from(table, position + HASH_BYTES)
            if stored == 0 or table[position : position + HASH_BYTES] == digest:
                return position, stored
            position += SLOT_BYTES
            if position == end:
                position = 0
        return position, 0
