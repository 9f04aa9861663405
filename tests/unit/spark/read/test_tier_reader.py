from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from crabka.errors import CorruptDataError
from crabka.spark.access.tier_store import ObjectMissingError
from crabka.spark.decode import AbortedTransactions, BatchBounds, BatchDecoder, CorruptBatch, Origin, RowRange
from crabka.spark.decode.places import ANYWHERE
from crabka.spark.errors import TierReadError
from crabka.spark.plan.ranges import TierRange
from crabka.spark.read.tier_reader import RangeReadAhead, TierRangeReader
from tests.support.tiers.planted import PRODUCER_ID, batches, transaction
from tests.support.tiers.stores import MemoryTierStore

LOG = batches(0, 8)
BATCH = len(LOG) // 8
WHOLE = TierRange("t", "id", 0, 0, 40, "o", 0, len(LOG), bytes_start_offset=0, bytes_end_offset=40)


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


def with_base_offset(log: bytes, number: int, base_offset: int) -> bytes:
    """The log with another base offset in one of its batches, which no checksum notices."""
    position = number * BATCH
    return log[:position] + struct.pack(">q", base_offset) + log[position + 8 :]


@pytest.mark.parametrize("size", [BATCH, 2 * BATCH, 1 << 20])
@pytest.mark.parametrize(("number", "wrong"), [(7, 35 + 65_536), (7, 36), (3, 17), (4, 0), (0, 4)])
def test_a_wrong_base_offset_is_found_also_at_the_border_of_pieces(size: int, number: int, wrong: int) -> None:
    reader = TierRangeReader(WHOLE, BatchDecoder(["offset"]))
    with pytest.raises(CorruptBatch, match="object o, position"):
        offsets(reader, pieces_of(with_base_offset(LOG, number, wrong), size))


def test_batches_before_their_segment_are_corrupt() -> None:
    log = batches(64, 2)
    each = TierRange("t", "id", 0, 64, 74, "o", 0, len(log), bytes_start_offset=64, bytes_end_offset=74)
    assert offsets(TierRangeReader(each, BatchDecoder(["offset"])), [memoryview(log)]) == list(range(64, 74))
    with pytest.raises(
        CorruptBatch, match=r"batch at offset 0 of t-0, object o, position 0: .*cannot follow offset 63"
    ):
        offsets(TierRangeReader(each, BatchDecoder(["offset"])), [memoryview(with_base_offset(log, 0, 0))])


def test_bytes_that_begin_after_the_first_offset_are_an_error_of_the_index() -> None:
    each = replace(WHOLE, start_offset=12, start_byte=3 * BATCH)
    with pytest.raises(
        CorruptDataError, match=f"o: offset 12 cannot be at position {3 * BATCH}.*begins with offset 15"
    ):
        offsets(TierRangeReader(each, BatchDecoder(["offset"])), [memoryview(LOG)[3 * BATCH :]])


def test_compaction_may_leave_gaps_at_both_ends() -> None:
    log = batches(10, 2) + batches(50, 2)
    each = replace(WHOLE, end_offset=100, end_byte=len(log), bytes_end_offset=100)
    assert offsets(TierRangeReader(each, BatchDecoder(["offset"])), pieces_of(log, 100)) == [
        *range(10, 20),
        *range(50, 60),
    ]
    cut = replace(each, end_offset=50, end_byte=len(log) // 2)
    assert offsets(TierRangeReader(cut, BatchDecoder(["offset"])), [memoryview(log[: len(log) // 2])]) == [
        *range(10, 20)
    ]


class CountingDecoder(BatchDecoder):
    """Counts how often it is asked, and for how many bytes."""

    def __init__(self) -> None:
        super().__init__(["offset"])
        self.asked: list[int] = []

    def decode(
        self,
        data: bytes | memoryview,
        origin: Origin,
        rows: RowRange,
        aborted: AbortedTransactions | None = None,
        *,
        bounds: BatchBounds = ANYWHERE,
    ) -> Iterator[pa.RecordBatch]:
        self.asked.append(len(data))
        return super().decode(data, origin, rows, aborted, bounds=bounds)


def test_a_batch_larger_than_pieces_is_joined_once() -> None:
    log = batches(0, 1, value=b"x" * 1000)
    decoder = CountingDecoder()
    each = TierRange("t", "id", 0, 0, 5, "o", 0, len(log))
    assert offsets(TierRangeReader(each, decoder), pieces_of(log, 50)) == list(range(5))
    assert decoder.asked == [50, len(log)]


@pytest.mark.parametrize("length", [len(LOG) - 2 * BATCH - 11, 2**31 - 1])
def test_a_length_beyond_the_end_of_the_range_is_corrupt(length: int) -> None:
    position = 2 * BATCH
    log = LOG[: position + 8] + struct.pack(">i", length) + LOG[position + 12 :]
    with pytest.raises(CorruptBatch, match=f"batch at offset 10 of t-0, object o, position {position}") as caught:
        offsets(TierRangeReader(WHOLE, BatchDecoder(["offset"])), pieces_of(log, BATCH))
    assert not caught.value.skippable


def tier_range(name: str, start: int, end: int) -> TierRange:
    return TierRange("t", "id", 0, 0, 1, name, start, end)


STORE = {"a": bytes(range(100)), "b": bytes(range(50)), "c": b"xyz"}


def test_ranges_come_in_pieces_and_in_order() -> None:
    ranges = [tier_range("a", 10, 95), tier_range("b", 0, 50), tier_range("c", 1, 3)]
    with RangeReadAhead(MemoryTierStore(STORE), ranges, piece_bytes=20) as ahead:
        pieces = [[bytes(piece) for piece in ahead.pieces(number)] for number in range(3)]
    assert [b"".join(each) for each in pieces] == [bytes(range(10, 95)), bytes(range(50)), b"yz"]
    assert [len(piece) for piece in pieces[0]] == [20, 20, 20, 20, 5]


def test_little_is_fetched_ahead() -> None:
    store = MemoryTierStore(STORE)
    with RangeReadAhead(store, [tier_range("a", 0, 100)], piece_bytes=1) as ahead:
        next(ahead.pieces(0))
    assert len(store.asked) < 10


def test_a_range_that_fails_does_not_stop_the_next() -> None:
    ranges = [tier_range("gone", 0, 60), tier_range("b", 0, 50)]
    with RangeReadAhead(MemoryTierStore(STORE), ranges, piece_bytes=20) as ahead:
        with pytest.raises(ObjectMissingError):
            list(ahead.pieces(0))
        assert b"".join(map(bytes, ahead.pieces(1))) == bytes(range(50))


def test_ranges_may_be_left_before_their_end() -> None:
    ranges = [tier_range("a", 0, 100), tier_range("b", 0, 50)]
    with RangeReadAhead(MemoryTierStore(STORE), ranges, piece_bytes=10) as ahead:
        next(ahead.pieces(0))
        assert b"".join(map(bytes, ahead.pieces(1))) == bytes(range(50))
