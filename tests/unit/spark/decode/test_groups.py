"""Groups of batches: their limits, what is decompressed for them and what is not."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest

from crabka.records import Record, build_batch, parse_header
from crabka.records.filtering import filtered_batch, raw_records
from crabka.records.header import LOG_APPEND_TIME, sealed
from crabka.spark.decode import CorruptBatch
from crabka.spark.decode.batches import BatchSource
from crabka.spark.decode.groups import Group, GroupMaker
from crabka.spark.decode.kernels import (
    BASE_OFFSET,
    BATCH_COUNT,
    BATCH_END,
    BATCH_OFFSET,
    BATCH_START,
    COUNT,
    LAST_DELTA,
    WANT_TIMES,
    WANT_VALUES,
)
from tests.support.spark.decoded_rows import EVERYTHING, ORIGIN, log_of, records


def maker(want: int = WANT_VALUES, *, max_rows: int = 100, max_bytes: int = 100_000, most: int = 1 << 20) -> GroupMaker:
    return GroupMaker(want, max_rows=max_rows, max_bytes=max_bytes, max_decompressed_bytes=most)


def groups_of(data: bytes, groups: GroupMaker, reports: list[CorruptBatch] | None = None) -> list[Group]:
    """All groups, with their data kept beyond their time."""
    source = BatchSource(data, ORIGIN, EVERYTHING, None, None if reports is None else reports.append)
    found: list[Group] = []
    for table in source.tables():
        for lines in groups.pieces(source, table):
            following = 0
            while following < len(lines):
                group, following = groups.next_group(source, lines, following)
                found.append(group._replace(data=group.data.copy()))
    return found


def claiming(count: int, **settings: Any) -> bytes:
    """A batch of two records with a header that claims another number of them, and offsets without gaps."""
    batch = bytearray(build_batch(records(2), **settings))
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    return sealed(batch)


def offsets_of(groups: list[Group]) -> list[list[int]]:
    return [group.batches[:, BATCH_OFFSET].tolist() for group in groups]


@pytest.mark.parametrize("codec", [0, 3])
def test_groups_end_before_they_have_too_many_rows(codec: int) -> None:
    data = log_of(40, 40, 40, 150, 20, 20, codec=codec)
    assert offsets_of(groups_of(data, maker())) == [[0, 40], [80], [120], [270, 290]]


def test_groups_end_before_they_have_too_many_bytes() -> None:
    data = log_of(10, 10, 10)
    size = parse_header(data).size_in_bytes
    assert offsets_of(groups_of(data, maker(max_bytes=2 * size))) == [[0, 10], [20]]
    assert offsets_of(groups_of(data, maker(max_bytes=10))) == [[0], [10], [20]]


def test_groups_end_where_decompressed_records_need_too_much_room() -> None:
    batches = [
        build_batch([Record(0, 0, None, bytes(1_000))] * 10, base_offset=10 * index, codec=4) for index in range(3)
    ]
    groups = groups_of(b"".join(batches), maker(max_bytes=25_000))
    assert offsets_of(groups) == [[0, 10], [20]]
    assert [group.size_bytes for group in groups] == [len(groups[0].data), len(groups[1].data)]


def test_uncompressed_batches_are_used_where_they_lie() -> None:
    data = log_of(2, 3)
    (group,) = groups_of(data, maker())
    assert group.data.tobytes() == data
    size = parse_header(data).size_in_bytes
    assert group.batches[:, [BATCH_START, BATCH_END]].tolist() == [[61, size], [size + 61, len(data)]]


def test_batches_of_all_codecs_share_a_group() -> None:
    data = b"".join(build_batch(records(2), base_offset=2 * codec, codec=codec) for codec in range(5))
    (group,) = groups_of(data, maker())
    payloads = {group.data[line[BATCH_START] : line[BATCH_END]].tobytes() for line in group.batches}
    assert payloads == {build_batch(records(2))[61:]}


def test_a_batch_that_cannot_be_decompressed_is_left_out() -> None:
    broken = bytearray(build_batch(records(9), base_offset=9, codec=4))
    broken[61:65] = b"\0\0\0\0"
    data = log_of(9, codec=4) + sealed(broken) + build_batch(records(9), base_offset=18, codec=4)
    with pytest.raises(CorruptBatch, match="broken zstd"):
        groups_of(data, maker())
    reports: list[CorruptBatch] = []
    assert offsets_of(groups_of(data, maker(), reports)) == [[0, 18]]
    assert [report.base_offset for report in reports] == [9]


def test_a_batch_that_holds_too_much_is_corrupt() -> None:
    data = build_batch([Record(0, 0, None, bytes(300_000))], codec=4)
    with pytest.raises(CorruptBatch, match="more than the allowed 200000 bytes: they need not be damaged"):
        groups_of(data, maker(max_bytes=1_000, most=200_000))


@pytest.mark.parametrize("want", [0, WANT_VALUES])
@pytest.mark.parametrize("codec", [0, 3])
def test_a_count_that_cannot_be_true_is_corrupt(codec: int, want: int) -> None:
    batch = claiming(2**31 - 1, codec=codec)
    with pytest.raises(CorruptBatch, match="2147483647 records cannot fit"):
        groups_of(batch, maker(want))


def test_a_count_that_cannot_be_true_is_left_out_alone() -> None:
    reports: list[CorruptBatch] = []
    data = log_of(7) + claiming(200, base_offset=7) + build_batch(records(3), base_offset=207)
    assert offsets_of(groups_of(data, maker(0), reports)) == [[0, 207]]
    assert [report.base_offset for report in reports] == [7]


def test_a_count_that_only_the_decompressed_records_can_prove_wrong_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="1000 records cannot fit in"):
        groups_of(claiming(1_000, codec=3), maker())


def test_batches_without_gaps_are_not_decompressed_for_their_offsets() -> None:
    first = bytearray(build_batch(records(5), codec=3))
    first[61:] = bytes(len(first) - 61)  # the header alone must do
    header = parse_header(build_batch(records(5), base_offset=5, codec=3))
    kept = raw_records(build_batch(records(5), base_offset=5, codec=3), header)[1:3]
    data = sealed(first) + filtered_batch(header, kept, None)
    (group,) = groups_of(data, maker(0))
    assert group.batches[0, BATCH_START] == -1
    assert group.batches[1, BATCH_START] == 0
    assert group.batches[:, BATCH_COUNT].tolist() == [5, 2]


def test_timestamps_need_the_records_unless_the_broker_gave_them() -> None:
    created = build_batch(records(5), codec=3)
    appended = build_batch(records(5), base_offset=5, codec=3, timestamp_type=LOG_APPEND_TIME, max_timestamp=77)
    (group,) = groups_of(created + appended, maker(WANT_TIMES))
    assert group.batches[:, BATCH_START].tolist() == [0, -1]
    (group,) = groups_of(created + appended, maker(0))
    assert group.batches[:, BATCH_START].tolist() == [-1, -1]


def test_a_long_batch_that_needs_no_look_comes_in_parts() -> None:
    data = log_of(7) + claiming(250, base_offset=7, codec=3) + build_batch(records(3), base_offset=257)
    groups = groups_of(data, maker(0))
    lines = [
        [int(line[BASE_OFFSET]), int(line[COUNT]), int(line[LAST_DELTA])] for group in groups for line in group.headers
    ]
    assert lines == [[0, 7, 6], [7, 100, 99], [107, 100, 99], [207, 50, 49], [257, 3, 2]]


def test_memory_does_not_follow_the_counts_of_batches_that_need_no_look() -> None:
    count = (256 << 20) // 7
    batches = b"".join(claiming(count, base_offset=index * count, codec=3) for index in range(50))
    source = BatchSource(batches, ORIGIN, EVERYTHING, None, None)
    groups = maker(0, most=256 << 20)
    (table,) = source.tables()
    tracemalloc.start()
    try:
        assert next(groups.pieces(source, table))[0, COUNT] == 100
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_what_was_made_large_for_one_batch_is_given_back_at_the_next() -> None:
    groups = maker(max_bytes=1_000)
    groups_of(build_batch([Record(0, 0, None, bytes(900_000))], codec=4), groups)
    assert len(groups._arena._buffer) > 900_000
    groups_of(log_of(2), groups)
    assert len(groups._arena._buffer) == 1_000
