from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.ids import TopicPartition
from crabka.spark.source.admission import TriggerDelay, limited, new_records

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)


def test_shares_are_proportional() -> None:
    assert limited(10, {A: 0, B: 0}, {}, {A: 30, B: 10}) == {A: 7, B: 2}


def test_a_small_partition_does_not_starve() -> None:
    assert limited(10, {A: 0, B: 100}, {}, {A: 1_000_000, B: 101}) == {A: 9, B: 101}


def test_a_new_partition_begins_at_its_first_offset() -> None:
    assert limited(10, {A: 5}, {B: 50}, {A: 5, B: 100}) == {A: 5, B: 60}


def test_nothing_new_is_no_batch() -> None:
    assert limited(10, {A: 5}, {}, {A: 5}) == {A: 5}
    assert limited(10, {A: 9}, {}, {A: 5}) == {A: 5}


def test_what_is_new_is_counted() -> None:
    assert new_records({A: 5}, {A: 7, B: 3}) == 5


@given(
    st.integers(1, 1 << 40),
    st.lists(st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 40)), min_size=1, max_size=5),
)
def test_a_batch_never_goes_back_nor_beyond_the_end(limit: int, sizes: list[tuple[int, int]]) -> None:
    starts = {TopicPartition("t", i): start for i, (start, _) in enumerate(sizes)}
    latest = {TopicPartition("t", i): start + size for i, (start, size) in enumerate(sizes)}
    ends = limited(limit, starts, {}, latest)
    assert all(starts[p] <= ends[p] <= latest[p] for p in latest)
    if starts != latest:
        assert ends != starts
    assert new_records(starts, ends) <= limit + len(sizes)


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    delay = TriggerDelay(1000)
    assert not delay.holds_back(10, 1, 5)  # the first one never waits
    assert delay.holds_back(10, 9, 6)
    assert not delay.holds_back(10, 10, 7)
    assert delay.holds_back(10, 9, 1006)
    assert not delay.holds_back(10, 9, 1007)
