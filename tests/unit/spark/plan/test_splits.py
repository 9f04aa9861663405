from __future__ import annotations

from crabka.spark.plan.ranges import BrokerRange, PlannedRange, TierRange
from crabka.spark.plan.splits import (
    MAX_RANGES,
    TARGET_BYTES,
    SplitLimits,
    cut_broker_range,
    cut_positions,
    limits_per_task,
    make_splits,
    needs_cutting,
    target_bytes,
)

MIB = 1 << 20


def tier(number: int, size: int, records: int = 10) -> TierRange:
    start = number * records
    return TierRange("t", "id", 0, start, start + records, f"o{number}", 0, size)


def broker(partition: int, start: int, end: int) -> BrokerRange:
    return BrokerRange("t", None, partition, start, end)


def test_splits_have_about_the_wanted_size() -> None:
    ranges: list[PlannedRange] = [tier(n, 20 * MIB) for n in range(10)]
    splits = make_splits(ranges, SplitLimits(100))
    assert [len(split.ranges) for split in splits] == [3, 3, 3, 1]
    assert [each for split in splits for each in split.ranges] == ranges


def test_the_number_of_tasks_is_capped_by_larger_splits() -> None:
    ranges: list[PlannedRange] = [tier(n, 60 * MIB) for n in range(100)]
    splits = make_splits(ranges, SplitLimits(7))
    assert len(splits) <= 7
    assert [each for split in splits for each in split.ranges] == ranges
    assert target_bytes(100 * TARGET_BYTES, SplitLimits(10)) == 10 * TARGET_BYTES


def test_more_tasks_can_be_asked_for() -> None:
    assert target_bytes(100 * MIB, SplitLimits(10_000, min_partitions=20)) == 5 * MIB
    assert len(make_splits([broker(0, 0, 100), broker(1, 0, 50)], SplitLimits(100, min_partitions=6))) == 6


def test_a_number_of_tasks_limits_the_records_of_each() -> None:
    wanted = SplitLimits(10_000, min_partitions=16)
    assert limits_per_task(wanted, records=400, size_bytes=20_000).max_records == 25
    assert limits_per_task(wanted, records=3, size_bytes=100).max_records == 1
    assert limits_per_task(wanted._replace(max_records=7), records=400, size_bytes=1).max_records == 7
    assert limits_per_task(SplitLimits(4, min_partitions=16), records=400, size_bytes=1).max_records == 100
    # So many bytes become more tasks anyway.
    assert limits_per_task(wanted, records=400, size_bytes=16 * TARGET_BYTES) == wanted
    assert limits_per_task(SplitLimits(10), records=400, size_bytes=1) == SplitLimits(10)


def test_records_per_task_are_limited() -> None:
    splits = make_splits([broker(0, 0, 25), tier(0, 10), tier(1, 10)], SplitLimits(100, max_records=10))
    assert all(sum(r.end_offset - r.start_offset for r in split.ranges) <= 10 for split in splits)
    assert len(splits) == 5


def test_a_range_of_a_broker_is_cut_evenly() -> None:
    pieces = cut_broker_range(broker(0, 5, 12), 3)
    assert [(piece.start_offset, piece.end_offset) for piece in pieces] == [(5, 7), (7, 9), (9, 12)]
    assert cut_broker_range(broker(0, 5, 6), 9) == [broker(0, 5, 6)]


def test_cuts_are_at_positions_that_are_far_enough_apart() -> None:
    positions = list(range(0, 1000, 10))
    cuts = cut_positions(positions, 0, 1000, 300)
    assert cuts == [300, 600]
    assert cut_positions(positions, 500, 700, 300) == []
    assert cut_positions([], 0, 1000, 300) == []


def test_a_small_rest_is_not_worth_a_cut() -> None:
    assert not needs_cutting(TARGET_BYTES + 1, TARGET_BYTES)
    assert needs_cutting(2 * TARGET_BYTES, TARGET_BYTES)


def test_nothing_needs_no_task() -> None:
    assert make_splits([], SplitLimits(10, min_partitions=3)) == ()


def test_many_small_segments_are_shared_out_as_well() -> None:
    ranges: list[PlannedRange] = [tier(n, 300) for n in range(20_000)]
    splits = make_splits(ranges, SplitLimits(10_000))
    assert len(splits) == -(-20_000 // MAX_RANGES) == 79
    assert [each for split in splits for each in split.ranges] == ranges
    assert len(make_splits(ranges, SplitLimits(5))) == 5
