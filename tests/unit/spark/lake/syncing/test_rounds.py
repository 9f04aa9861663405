from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.spark.lake.syncing.rounds import RoundLimits, next_round, weight
from crabka.spark.plan.ranges import BrokerRange, PlannedRange, ReadPlan, Split, TierRange

LIMITS = RoundLimits(round_bytes=250, task_bytes=100, min_tasks=1)


def tier(partition: int, start: int, end: int, size: int = 100) -> TierRange:
    return TierRange("t", "id", partition, start, end, f"o{partition}-{start}", 0, size)


def plan(*ranges: PlannedRange, spans: dict[int, tuple[int, int]]) -> ReadPlan:
    return ReadPlan(
        tuple(Split((each,)) for each in ranges), {("t", key): span for key, span in spans.items()}, {"t": "id"}
    )


def test_a_round_takes_what_comes_next_of_every_partition() -> None:
    whole = plan(
        tier(1, 0, 10), tier(0, 10, 20), tier(0, 0, 10), tier(0, 20, 30), spans={0: (0, 30), 1: (0, 12), 2: (4, 4)}
    )
    first = next_round(whole, "t", {}, LIMITS)
    assert first.after == {0: 20, 1: 12, 2: 4}
    assert (first.size_bytes, first.left_bytes, first.is_last) == (300, 100, False)
    assert [each.start_offset for split in first.splits for each in split.ranges] == [0, 10, 0]


def test_the_last_round_reaches_the_ends() -> None:
    last = next_round(plan(tier(0, 5, 8), spans={0: (5, 11)}), "t", {0: 5}, LIMITS)
    assert (last.before, last.after, last.is_last, last.is_empty) == ({0: 5}, {0: 11}, True, False)


def test_nothing_new_is_no_round() -> None:
    assert next_round(plan(spans={0: (5, 5)}), "t", {0: 5}, LIMITS).is_empty


def test_partitions_that_are_new_and_empty_are_a_reason_to_commit() -> None:
    found = next_round(plan(spans={0: (5, 5), 1: (0, 0)}), "t", {0: 5}, LIMITS)
    assert not found.is_empty
    assert found.after == {0: 5, 1: 0}


def test_partitions_that_are_not_known_yet_have_nothing() -> None:
    found = next_round(plan(tier(2, 0, 5), spans={2: (0, 5), 4: (3, 3)}), "t", {}, LIMITS)
    assert found.after == {0: 0, 1: 0, 2: 5, 3: 0, 4: 3}


def test_rounds_of_one_plan_follow_each_other() -> None:
    whole = plan(
        *(tier(0, start, start + 10) for start in range(0, 60, 10)),
        BrokerRange("t", "id", 1, 0, 2_500_000),
        spans={0: (0, 65), 1: (0, 2_500_000)},
    )
    before: dict[int, int] = {}
    seen: list[tuple[int, int, int]] = []
    rounds = 0
    while before.get(0) != 65:
        found = next_round(whole, "t", before, LIMITS)
        rounds += 1
        assert found.before == before
        seen += [(e.partition, e.start_offset, e.end_offset) for split in found.splits for e in split.ranges]
        before = dict(found.after)
        assert found.is_last == (rounds == 4)
    assert before == {0: 65, 1: 2_500_000}
    assert sorted(seen) == [
        *((0, start, start + 10) for start in range(0, 60, 10)),
        (1, 0, 1_000_000),
        (1, 1_000_000, 2_000_000),
        (1, 2_000_000, 2_500_000),
    ]


def test_a_log_that_begins_later_than_the_table_ends_moves_it() -> None:
    assert next_round(plan(spans={0: (9, 9)}), "t", {0: 5}, LIMITS).after == {0: 9}


def test_ranges_of_brokers_are_cut_for_tasks() -> None:
    whole = plan(BrokerRange("t", "id", 0, 0, 2_500_000), spans={0: (0, 2_500_000)})
    found = next_round(whole, "t", {}, RoundLimits(1 << 40, 1 << 40, 3))
    assert [[(each.start_offset, each.end_offset) for each in split.ranges] for split in found.splits] == [
        [(0, 1_000_000)],
        [(1_000_000, 2_000_000)],
        [(2_000_000, 2_500_000)],
    ]


@given(
    st.lists(st.lists(st.integers(1, 50), max_size=8), min_size=1, max_size=4),
    st.integers(1, 500),
    st.integers(1, 200),
    st.integers(1, 6),
)
def test_rounds_cover_a_plan_without_gap_or_overlap(
    sizes: list[list[int]], round_bytes: int, task_bytes: int, min_tasks: int
) -> None:
    ends = {partition: len(row) * 10 for partition, row in enumerate(sizes)}
    ranges = [
        tier(partition, number * 10, number * 10 + 10, size)
        for partition, row in enumerate(sizes)
        for number, size in enumerate(row)
    ]
    before: dict[int, int] = {}
    seen: list[tuple[int, int]] = []
    limits = RoundLimits(round_bytes, task_bytes, min_tasks)
    while True:
        left = [each for each in ranges if each.start_offset >= before.get(each.partition, 0)]
        spans = {partition: (before.get(partition, 0), end) for partition, end in ends.items()}
        found = next_round(plan(*left, spans=spans), "t", before, limits)
        taken = [each for split in found.splits for each in split.ranges]
        assert found.size_bytes == sum(map(weight, taken))
        assert all(before.get(each.partition, 0) <= each.start_offset for each in taken)
        assert all(each.end_offset <= found.after[each.partition] for each in taken)
        seen += [(each.partition, each.start_offset) for each in taken]
        before = dict(found.after)
        if found.is_last:
            break
    assert before == ends
    assert sorted(seen) == sorted((each.partition, each.start_offset) for each in ranges)
