"""Rows of one range of the tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from crabka.spark.decode import AbortedTransactions, BatchDecoder, Origin, RowRange
from crabka.spark.errors import TierReadError
from crabka.spark.plan.ranges import TierRange
from crabka.spark.read.batch_walk import next_offset_of


class TierRangeReader:
    """Decodes the bytes of a range and remembers how far it came."""

    def __init__(self, each: TierRange, decoder: BatchDecoder) -> None:
        self._range = each
        self._decoder = decoder
        self._decoded: bytes | memoryview = b""

    @property
    def next_offset(self) -> int:
        """The first offset of which no row was given yet."""
        return next_offset_of(self._decoded, self._range.start_offset)

    def rows(self, pieces: Iterable[memoryview]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range from its bytes; a batch may lie in several pieces.

        Raises CorruptBatch, and TierReadError if the bytes end inside of a batch.
        """
        each = self._range
        wanted = RowRange(each.start_offset, each.end_offset)
        aborted = None if each.aborted is None else AbortedTransactions(each.aborted)
        position = each.start_byte
        rest: bytes | memoryview = b""
        for piece in pieces:
            data = memoryview(b"".join((rest, piece))) if rest else memoryview(piece)
            origin = Origin(each.topic, each.partition, each.object_name, position)
            yield from self._decoder.decode(data, origin, wanted, aborted)
            consumed = self._decoder.consumed
            position += consumed
            if consumed:
                self._decoded = data[:consumed]
            rest = data[consumed:]
        if rest:
            raise TierReadError(f"{each.object_name} ends inside of the batch at position {position}")
