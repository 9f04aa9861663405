"""How much the batches that are decompressed at the same time may hold, over all requests of a node.

Owns the two bounds against decompression bombs. One batch may hold `decompressed_limit`: a small multiple of the
`max.message.bytes` of its topic. Kafka streams and has no such bound; our codecs need the whole output in memory, and
twice as much while they work. All batches at a time may hold MAX_DECOMPRESSED_BYTES: jobs wait in order until there is
room, on the loop, so that they hold no thread of the pool. A job that alone may hold more runs by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from crabka._kio import ErrorCode
from crabka.errors import OperationError
from crabka.records.record import MIN_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.config.topic import TopicConfig
    from crabka.ports import Threads
    from crabka.records.header import BatchHeader

P = ParamSpec("P")
T = TypeVar("T")

DECOMPRESSION_FACTOR: Final = 16
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
# A topic for tiny batches still gets room for what compresses well.
_LEAST_MESSAGE_BYTES: Final = 64 * 1024


def decompressed_limit(config: TopicConfig) -> int:
    """Return how many bytes the records of one batch for the topic may have."""
    return DECOMPRESSION_FACTOR * max(config.max_message_bytes, _LEAST_MESSAGE_BYTES)


def search_limit(config: TopicConfig) -> int:
    """Return how many bytes a stored batch may have that is searched for a record.

    Plain topics take batches unseen, so that one may hold more than `decompressed_limit`.
    """
    return max(MAX_DECOMPRESSED_BYTES, decompressed_limit(config))


def check_record_count(header: BatchHeader, config: TopicConfig) -> None:
    """Refuse more records than an uncompressed batch of the largest size could have: each costs time to look at.

    Raises OperationError (MESSAGE_TOO_LARGE), which lets a producer split the batch.
    """
    limit = max(config.max_message_bytes, _LEAST_MESSAGE_BYTES) // MIN_RECORD_BYTES
    if header.records_count > limit:
        raise OperationError(
            ErrorCode.message_too_large, f"A batch of {header.records_count} records exceeds the limit of {limit}"
        )


class DecompressionBudget:
    """Admits jobs in the order in which they come. All methods run on the loop."""

    def __init__(self, limit_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used_bytes = 0

    async def run(self, threads: Threads, size: int, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn`, which may hold `size` bytes, in a thread once there is room. Raises what it raises."""
        await self._take(size)
        try:
            return await threads.submit(fn, *args, **kwargs)
        finally:
            self._give_back(size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self._has_room(size):
            self.used_bytes += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(size)
            raise

    def _has_room(self, size: int) -> bool:
        return not self.used_bytes or self.used_bytes + size <= self._limit_bytes

    def _give_back(self, size: int) -> None:
        self.used_bytes -= size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._has_room(wanted):
                    return
                self.used_bytes += wanted
                turn.set_result(None)
            self._waiting.popleft()
