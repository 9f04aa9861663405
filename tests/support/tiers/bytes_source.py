"""A source of segment bytes that is a byte string."""

from __future__ import annotations

import asyncio

from crabka.broker.tiering.read.deadline import Deadline
from crabka.ports import Payload
from tests.support.storage.small import make_batch

# Ten batches of three records.
BATCHES = [make_batch(3, value_bytes=20 * (number % 4), base_offset=3 * number) for number in range(10)]


LOG = b"".join(BATCHES)


NO_LIMIT = 1 << 30


class BytesSource:
    """Has the bytes up to `loaded_end`, and gets as much more as `comes` allows."""

    def __init__(self, data: bytes = LOG, *, comes: int = NO_LIMIT) -> None:
        self.data = data
        self.size = len(data)
        self.loaded: set[int] = set()
        self.comes = comes
        self.peek_count = 0

    def peek(self, length: int, position: int) -> memoryview | None:
        self.peek_count += 1
        wanted = range(position, min(position + length, self.size))
        return memoryview(self.data)[position : wanted.stop] if self.loaded.issuperset(wanted) else None

    async def load(self, length: int, position: int, deadline: Deadline) -> int:
        await asyncio.sleep(0)
        end = min(position + length, self.size, self.comes)
        self.loaded.update(range(position, end))
        return max(0, end - position)

    def read(self, length: int, position: int) -> bytes:
        return self.data[position : position + length]

    def payloads(self, length: int, position: int) -> list[Payload]:
        view = self.peek(length, position)
        assert view is not None
        return [view]
