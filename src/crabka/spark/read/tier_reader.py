"""Rows of one range of the tier.

The bytes of a range were chosen by an index that nothing confirms, so that they have to bear out what it said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from crabka.errors import CorruptDataError
from crabka.spark.decode import AbortedTransactions, BatchBounds, CorruptBatch, Origin, RowRange
from crabka.spark.errors import TierReadError
from crabka.spark.plan.ranges import TierRange

if TYPE_CHECKING:
    from crabka.spark.decode import BatchDecoder

_BASE_OFFSET_BYTES: Final = 8
_LOG_OVERHEAD: Final = 12  # base offset and length


class TierRangeReader:
    """Decodes the bytes of a range and remembers how far it came."""

    def __init__(self, each: TierRange, decoder: BatchDecoder) -> None:
        self._range = each
        self._decoder = decoder
        self._position = each.start_byte  # of the first byte that is not decoded
        self._read_until = each.bytes_start_offset

    @property
    def next_offset(self) -> int:
        """The first offset of which no row was given yet."""
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
