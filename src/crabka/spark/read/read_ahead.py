"""Ranges of objects in pieces, fetched ahead of who decodes them, also across the borders of objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, NamedTuple

from crabka.spark.plan.ranges import TierRange
from crabka.spark.tier_store import TierStore

PIECE_BYTES: Final = 8 << 20
_AHEAD: Final = 3


class _Request(NamedTuple):
    number: int
    key: str
    span: range


class RangeReadAhead:
    """Fetches ranges in their order; few pieces are in memory at a time. A context manager."""

    def __init__(self, store: TierStore, ranges: Sequence[TierRange], *, piece_bytes: int = PIECE_BYTES) -> None:
        self._store = store
        self._requests = deque(
            _Request(index, each.object_name, range(start, min(start + piece_bytes, each.end_byte)))
            for index, each in enumerate(ranges)
            for start in range(each.start_byte, each.end_byte, piece_bytes)
        )
        self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="tier-read")
        self._fetching: deque[tuple[int, Future[memoryview]]] = deque()

    def __enter__(self) -> RangeReadAhead:
        self._fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._requests.clear()
        self._pool.shutdown(cancel_futures=True)

    def pieces(self, index: int) -> Iterator[memoryview]:
        """Yield the bytes of one of the ranges; pieces of earlier ones that were not wanted are dropped.

        Raises ObjectMissingError, RemoteBackendError.
        """
        while self._fetching and self._fetching[0][0] <= index:
            owner, fetched = self._fetching.popleft()
            self._fill()
            if owner == index:
                yield fetched.result()
            else:
                fetched.cancel()

    def _fill(self) -> None:
        while self._requests and len(self._fetching) < _AHEAD:
            request = self._requests.popleft()
            self._fetching.append((request.number, self._pool.submit(self._store.get_range, request.key, request.span)))
