"""Rows of ranges of the tier: bytes are fetched in pieces ahead of the decoder, also across the borders of objects.

An index without a checksum chose the bytes of a range, so the first batch is verified against it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from crabka.errors import CorruptDataError
from crabka.spark.access.tier_store import TierStore
from crabka.spark.decode import AbortedTransactions, BatchBounds, CorruptBatch, Origin, RowRange
from crabka.spark.errors import TierReadError
from crabka.spark.plan.ranges import TierRange

if TYPE_CHECKING:
    from crabka.spark.decode import BatchDecoder


PIECE_BYTES: Final = 8 << 20
_AHEAD: Final = 3
_BASE_OFFSET_BYTES: Final = 8
_LOG_OVERHEAD: Final = 12  # base offset and length


class TierRangeReader:
    """Decodes the bytes of a range and keeps its position."""

    def __init__(self, each: TierRange, decoder: BatchDecoder) -> None:
        self._range = each
        self._decoder = decoder
        self._position = each.start_byte  # of the first byte that is not decoded
        self._read_until = each.bytes_start_offset

    @property
    def next_offset(self) -> int:
        """The first offset of which no row was returned yet."""
        return max(self._read_until, self._range.start_offset)

    def rows(self, pieces: Iterable[memoryview]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range from its bytes; a batch may lie in several pieces.

        Raises CorruptBatch, CorruptDataError if the bytes are others than the index says, and TierReadError if they
        end inside of a batch.
        """
        each = self._range
        aborted = None if each.aborted is None else AbortedTransactions(each.aborted)
        held: list[memoryview] = []
        held_bytes, needed_bytes = 0, _LOG_OVERHEAD
        for piece in pieces:
            held.append(piece)
            held_bytes += len(piece)
            if held_bytes < needed_bytes:
                continue
            data = held[0] if len(held) == 1 else memoryview(b"".join(held))
            if self._position == each.start_byte:
                self._check_first(data)
            yield from self._decode(data, aborted)
            rest = data[self._decoder.consumed :]
            held, held_bytes = [rest] if rest else [], len(rest)
            needed_bytes = self._bytes_of_batch(rest)
        if held_bytes:
            raise TierReadError(f"{each.object_name} ends inside of the batch at position {self._position}")

    def _decode(self, data: memoryview, aborted: AbortedTransactions | None) -> Iterator[pa.RecordBatch]:
        each, decoder = self._range, self._decoder
        wanted = RowRange(each.start_offset, each.end_offset)
        bounds = BatchBounds(self._read_until, each.bytes_end_offset)
        yield from decoder.decode(data, self._origin(), wanted, aborted, bounds=bounds)
        if decoder.consumed:
            self._position += decoder.consumed
            self._read_until = decoder.next_offset

    def _bytes_of_batch(self, data: memoryview) -> int:
        """Return how many bytes must be there before the next batch can be whole. Raises CorruptBatch."""
        if len(data) < _LOG_OVERHEAD:
            return _LOG_OVERHEAD
        size = _LOG_OVERHEAD + int.from_bytes(data[_BASE_OFFSET_BYTES:_LOG_OVERHEAD], "big", signed=True)
        left = self._range.end_byte - self._position
        if size > left:
            raise CorruptBatch(
                self._origin(),
                f"its {size} bytes do not fit in the {left} of the range",
                base_offset=int.from_bytes(data[:_BASE_OFFSET_BYTES], "big", signed=True),
                size_bytes=left,
                skippable=False,
            )
        return size

    def _check_first(self, data: memoryview) -> None:
        """An index entry has the last offset of a batch, so that a range that begins with one begins at or before it.

        At the start of a segment compaction may have left a gap.
        """
        each = self._range
        found = int.from_bytes(data[:_BASE_OFFSET_BYTES], "big", signed=True)
        if each.start_byte > 0 and found > each.start_offset:
            raise CorruptDataError(
                each.object_name,
                f"offset {each.start_offset} cannot be at position {each.start_byte}, as its index says: the batch "
                f"there begins with offset {found}",
            )

    def _origin(self) -> Origin:
        each = self._range
        return Origin(each.topic, each.partition, each.object_name, self._position)


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
