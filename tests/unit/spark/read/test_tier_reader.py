from __future__ import annotations

import pytest

from crabka.spark.decode import BatchDecoder
from crabka.spark.errors import TierReadError
from crabka.spark.plan.ranges import TierRange
from crabka.spark.read.tier_reader import TierRangeReader
from tests.support.planted_tier import PRODUCER_ID, batches, transaction

LOG = batches(0, 8)


def pieces_of(data: bytes, size: int) -> list[memoryview]:
    return [memoryview(data[start : start + size]) for start in range(0, len(data), size)]


def offsets(reader: TierRangeReader, pieces: list[memoryview]) -> list[int]:
    return [offset for batch in reader.rows(pieces) for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("size", [1, 61, 100, 777, 1 << 20])
def test_pieces_of_any_size_give_the_same_rows(size: int) -> None:
    each = TierRange("t", "id", 0, 7, 33, "o", 0, len(LOG))
    reader = TierRangeReader(each, BatchDecoder(["offset"]))
    assert offsets(reader, pieces_of(LOG, size)) == list(range(7, 33))
    assert reader.next_offset == 40


def test_it_is_known_how_far_a_broken_read_came() -> None:
    each = TierRange("t", "id", 0, 0, 40, "o", 0, len(LOG))
    reader = TierRangeReader(each, BatchDecoder(["topic", "offset"]))
    assert reader.next_offset == 0
    half = len(LOG) // 2 + 10
    found: list[int] = []

    def read() -> None:
        for batch in reader.rows(pieces_of(LOG[:half], half)):
            found.extend(batch.column("offset").to_pylist())

    with pytest.raises(TierReadError, match="ends inside of the batch"):
        read()
    assert reader.next_offset == len(found) == 20


def test_aborted_transactions_are_left_out() -> None:
    log = transaction(0, committed=False) + transaction(3, committed=True)
    each = TierRange("t", "id", 0, 0, 6, "o", 0, len(log), ((PRODUCER_ID, 0, 2),))
    assert offsets(TierRangeReader(each, BatchDecoder(["offset"])), [memoryview(log)]) == [3, 4]
    each = TierRange("t", "id", 0, 0, 6, "o", 0, len(log), None)
    assert offsets(TierRangeReader(each, BatchDecoder(["offset"])), [memoryview(log)]) == [0, 1, 3, 4]
