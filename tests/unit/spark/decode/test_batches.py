"""Which batches of some bytes have rows to give, and what is said of corrupt ones."""

from __future__ import annotations

import struct

import pytest

from crabka.records import Record, build_batch, parse_header
from crabka.records.filtering import emptied_batch
from crabka.records.header import sealed
from crabka.spark.decode import AbortedTransactions, BatchBounds, CorruptBatch, Origin, RowRange
from crabka.spark.decode.batches import BatchSource, CorruptionListener
from crabka.spark.decode.kernels import BASE_OFFSET, POSITION
from crabka.spark.decode.places import ANYWHERE
from tests.support.spark.decoded_rows import EVERYTHING, ORIGIN, log_of, marker, records


def source_of(
    data: bytes | memoryview,
    rows: RowRange = EVERYTHING,
    aborted: AbortedTransactions | None = None,
    on_corrupt: CorruptionListener | None = None,
    bounds: BatchBounds = ANYWHERE,
) -> BatchSource:
    return BatchSource(data, ORIGIN, rows, aborted, on_corrupt, bounds=bounds)


def chosen(source: BatchSource) -> list[int]:
    """The base offsets of the batches with rows."""
    return [offset for table in source.tables() for offset in table[:, BASE_OFFSET].tolist()]


def transaction(producer_id: int, offset: int, count: int = 2) -> bytes:
    return build_batch(
        records(count),
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [(0, 99, [0, 10, 20]), (9, 10, [0]), (10, 11, [10]), (9, 21, [0, 10, 20]), (30, 99, []), (5, 5, [0])],
)
def test_batches_out_of_range_are_left_out(start: int, end: int, offsets: list[int]) -> None:
    data = log_of(10, 10, 10)
    source = source_of(data, RowRange(start, end))
    found = chosen(source)
    assert found == offsets or (start >= end and found in ([], offsets))
    assert source.consumed == len(data)


def test_what_is_cut_off_at_the_end_is_not_consumed() -> None:
    data = log_of(3, 3)
    source = source_of(memoryview(data)[:-1])
    assert chosen(source) == [0]
    assert source.consumed == parse_header(data).size_in_bytes


def test_more_batches_than_a_table_holds_are_found() -> None:
    one = [build_batch([Record(0, 0, None, None)], base_offset=offset) for offset in range(16_384 + 10)]
    source = source_of(b"".join(one))
    assert chosen(source) == list(range(len(one)))
    assert source.consumed == sum(map(len, one))


def test_control_batches_and_empty_ones_have_no_rows() -> None:
    empty = emptied_batch(parse_header(build_batch(records(3), base_offset=3)))
    data = log_of(2) + marker(7, 2, committed=True) + empty + build_batch(records(1), base_offset=6)
    source = source_of(data)
    assert chosen(source) == [0, 6]
    assert source.consumed == len(data)


def test_aborted_transactions_are_left_out() -> None:
    data = b"".join(
        [
            *(transaction(7, 0), transaction(8, 2), build_batch(records(1), base_offset=4, producer_id=7)),
            *(transaction(7, 5), marker(7, 7, committed=False), marker(8, 8, committed=True), transaction(7, 9)),
        ]
    )
    assert chosen(source_of(data)) == [0, 2, 4, 5, 9]
    assert chosen(source_of(data, aborted=AbortedTransactions([]))) == [0, 2, 4, 5, 9]
    assert chosen(source_of(data, aborted=AbortedTransactions([(7, 0, 7)]))) == [2, 4, 9]


def test_markers_end_aborted_transactions_of_a_fetch_answer() -> None:
    data = b"".join(
        [
            *(transaction(7, 0), marker(7, 2, committed=True), transaction(7, 3), marker(7, 5, committed=False)),
            *(transaction(7, 6), marker(7, 8, committed=True), transaction(7, 9), marker(7, 11, committed=False)),
        ]
    )
    aborted = AbortedTransactions([(7, 3, None), (7, 9, None)])
    assert chosen(source_of(data, aborted=aborted)) == [0, 6]


def test_a_broken_marker_is_corrupt_where_it_is_needed() -> None:
    broken = bytearray(marker(7, 2, committed=False))
    broken[61] = 0xFF
    data = transaction(7, 0) + sealed(broken)
    assert chosen(source_of(data, aborted=AbortedTransactions([(7, 0, 2)]))) == []
    with pytest.raises(CorruptBatch, match="batch at offset 2 "):
        chosen(source_of(data, aborted=AbortedTransactions([(7, 0, None)])))


def damaged(data: bytes, position: int, replacement: bytes) -> bytes:
    return data[:position] + replacement + data[position + len(replacement) :]


def test_a_wrong_checksum_is_raised_with_its_place() -> None:
    data = log_of(3, 3)
    size = parse_header(data).size_in_bytes
    with pytest.raises(CorruptBatch) as caught:
        chosen(source_of(damaged(data, len(data) - 1, b"\xff")))
    error = caught.value
    assert error.origin == Origin(ORIGIN.topic, ORIGIN.partition, ORIGIN.object_name, ORIGIN.position + size)
    assert (error.base_offset, error.size_bytes, error.skippable) == (3, len(data) - size, True)
    assert "checksum" in str(error)


def test_checksums_out_of_range_do_not_matter() -> None:
    data = log_of(3, 3)
    assert chosen(source_of(damaged(data, len(data) - 1, b"\xff"), RowRange(0, 3))) == [0]


@pytest.mark.parametrize("flags", [0x20, 0x10], ids=["control", "aborted"])
def test_checksums_count_also_for_batches_without_rows(flags: int) -> None:
    data = bytearray(transaction(7, 0))
    data[22] ^= flags
    with pytest.raises(CorruptBatch, match="checksum"):
        chosen(source_of(bytes(data), aborted=AbortedTransactions([(7, 0, 9)])))


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (16, b"\x01", "magic.* 1 is not supported"),
        (16, b"\x63", "magic.* 99 is not supported"),
        (0, struct.pack(">q", 2), "offsets 2 to 4 cannot follow offset 2"),
        (0, struct.pack(">q", -1), "cannot follow"),
        (0, struct.pack(">q", 2**63 - 1), "cannot follow"),
        (23, struct.pack(">i", -1), "cannot follow"),
        (57, struct.pack(">i", -1), "there cannot be -1 records"),
    ],
)
def test_impossible_headers_are_corrupt(position: int, value: bytes, reason: str) -> None:
    first = log_of(3)
    second = bytearray(build_batch(records(3), base_offset=3))
    second[position : position + len(value)] = value
    with pytest.raises(CorruptBatch, match=reason):
        chosen(source_of(first + sealed(second)))


def test_a_listener_receives_corrupt_batches_and_the_rest_goes_on() -> None:
    data = log_of(3, 3, 3)
    size = parse_header(data).size_in_bytes
    reported: list[CorruptBatch] = []
    source = source_of(damaged(data, size + 70, b"\xff\xff"), on_corrupt=reported.append)
    assert chosen(source) == [0, 6]
    assert [(error.base_offset, error.position) for error in reported] == [(3, ORIGIN.position + size)]
    assert source.consumed == len(data)


def test_an_impossible_length_is_raised_even_to_a_listener() -> None:
    data = log_of(3, 3, 3)
    size = parse_header(data).size_in_bytes
    reported: list[CorruptBatch] = []
    source = source_of(damaged(data, size + 8, bytes(4)), on_corrupt=reported.append)
    with pytest.raises(CorruptBatch, match="length is impossible") as caught:
        chosen(source)
    assert not caught.value.skippable
    assert caught.value.size_bytes == len(data) - size
    assert source.consumed == size
    assert reported == []


def test_positions_are_those_in_the_data() -> None:
    data = log_of(2, 2)
    (table,) = source_of(data).tables()
    assert table[:, POSITION].tolist() == [0, parse_header(data).size_in_bytes]


def moved(count: int, base_offset: int, wrong_offset: int) -> bytes:
    """A batch with another base offset than its own, which no checksum notices."""
    return struct.pack(">q", wrong_offset) + build_batch(records(count), base_offset=base_offset)[8:]


@pytest.mark.parametrize("wrong", [10 + 65_536, 11, 9, 4, -6])
def test_a_base_offset_that_cannot_be_there_is_corrupt(wrong: int) -> None:
    data = log_of(5, 5) + moved(5, 10, wrong)
    with pytest.raises(CorruptBatch, match=f"batch at offset {wrong} .*offsets {wrong} to {wrong + 4} ") as caught:
        chosen(source_of(data, RowRange(0, 15), bounds=BatchBounds(0, 15)))
    assert caught.value.skippable


def test_a_batch_before_what_was_there_already_is_corrupt() -> None:
    data = build_batch(records(5), base_offset=10)
    assert chosen(source_of(data, bounds=BatchBounds(10, 15))) == [10]
    with pytest.raises(CorruptBatch, match="offsets 10 to 14 cannot follow offset 10"):
        chosen(source_of(data, bounds=BatchBounds(11, 15)))


@pytest.mark.parametrize("wrong", [13, 7, 1, 10, 65_541, 12])
def test_neighbours_of_a_wrong_base_offset_are_not_blamed(wrong: int) -> None:
    data = log_of(5) + moved(5, 5, wrong) + b"".join(build_batch(records(5), base_offset=base) for base in (10, 15))
    reported: list[CorruptBatch] = []
    source = source_of(data, RowRange(0, 20), on_corrupt=reported.append, bounds=BatchBounds(0, 20))
    assert chosen(source) == [0, 10, 15]
    assert [error.base_offset for error in reported] == [wrong]
    assert source.next_offset == 20


def test_both_go_if_nothing_shows_which_of_two_batches_is_wrong() -> None:
    first, second, third = (build_batch(records(5), base_offset=base) for base in (10, 13, 30))
    reported: list[CorruptBatch] = []
    assert chosen(source_of(first + second + third, on_corrupt=reported.append)) == [30]
    assert [error.base_offset for error in reported] == [10, 13]


def test_offsets_rise_also_over_batches_that_are_left_out() -> None:
    batches = (build_batch(records(count), base_offset=base) for count, base in ((30, 0), (1, 20), (1, 21), (1, 40)))
    reported: list[CorruptBatch] = []
    assert chosen(source_of(b"".join(batches), on_corrupt=reported.append)) == [0, 40]
    assert [error.base_offset for error in reported] == [20, 21]


def test_offsets_rise_from_table_to_table() -> None:
    one = [build_batch([Record(0, 0, None, None)], base_offset=offset) for offset in range(16_384)]
    with pytest.raises(CorruptBatch, match="offsets 16383 to 16383 cannot follow offset 16383"):
        chosen(source_of(b"".join([*one, one[-1]])))


def test_a_batch_that_only_seems_to_end_before_the_range_is_checked() -> None:
    """Its true offsets are 100 to 109: it is the next batch that says what it may hold."""
    batch = build_batch(records(10), base_offset=100)
    data = damaged(batch, 23, struct.pack(">i", 1)) + build_batch(records(5), base_offset=110)
    with pytest.raises(CorruptBatch, match=r"batch at offset 100 .*checksum"):
        chosen(source_of(data, RowRange(105, 115)))
    assert chosen(source_of(data, RowRange(110, 115))) == [110]


def test_a_wrong_last_offset_does_not_discredit_the_next_batch() -> None:
    data = log_of(5, 5)
    reported: list[CorruptBatch] = []
    assert chosen(source_of(damaged(data, 23, struct.pack(">i", 7)), on_corrupt=reported.append)) == [5]
    assert [error.base_offset for error in reported] == [0]


def test_it_is_known_how_far_sound_batches_reach() -> None:
    data = log_of(5, 5)
    source = source_of(data, bounds=BatchBounds(0, 10))
    assert source.next_offset == 0
    chosen(source)
    assert source.next_offset == 10
    source = source_of(damaged(data, len(data) - 1, b"\xff"), on_corrupt=lambda _: None)
    chosen(source)
    assert source.next_offset == 5
