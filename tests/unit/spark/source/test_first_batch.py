from __future__ import annotations

import pytest

from crabka.ids import TopicPartition
from crabka.spark.source.first_batch import FirstBatch

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def test_partitions_that_begin_at_their_end_wait_for_the_second_batch() -> None:
    first = FirstBatch()
    assert first.starts is None
    first.begin_at({T0: 5, T1: 0}, {T0})
    assert first.starts == {T0: 5, T1: 0}
    assert first.end_of({T0: 5, T1: 0}, {T0: 8, T1: 4}) == {T0: 5, T1: 4}
    assert first.end_of({T0: 5, T1: 4}, {T0: 8, T1: 4}) == {T0: 8, T1: 4}


def test_an_end_is_held_back_only_once() -> None:
    first = FirstBatch()
    first.begin_at({T0: 5}, {T0})
    assert first.end_of({T0: 5}, {T0: 8}) == {T0: 5}
    # Spark need not have planned the first batch, if it found that none of its rows is wanted.
    assert first.end_of({T0: 5}, {T0: 8}) == {T0: 8}


def test_a_partition_that_is_new_since_the_beginning_is_left_to_the_second_batch() -> None:
    first = FirstBatch()
    first.begin_at({T0: 5}, {T0})
    assert first.end_of({T0: 5}, {T0: 5, T2: 3}) == {T0: 5}
    # A restart finds it among the partitions, at its end.
    again = FirstBatch()
    again.begin_at({T0: 9, T2: 3}, {T0, T2})
    assert again.start_of({T0: 9, T2: 3}, {T0: 5}) == {T0: 5}
    assert again.end_of({T0: 5}, {T0: 9, T2: 4}) == {T0: 9, T2: 4}


def test_a_first_batch_that_is_run_again_never_begins_after_its_end(caplog: pytest.LogCaptureFixture) -> None:
    first = FirstBatch()
    first.begin_at({T0: 9, T1: 2}, {T0})
    assert first.start_of({T0: 9, T1: 2}, {T0: 5, T1: 4}) == {T0: 5, T1: 2}
    (found,) = caplog.messages
    assert found.startswith(f"the first batch of {T0} ends at 5, before its start at 9")
    assert first.end_of({T0: 9, T1: 2}, {T0: 9, T1: 6}) == {T0: 9, T1: 6}


def test_later_batches_are_left_alone() -> None:
    first = FirstBatch()
    assert first.start_of({T0: 9}, {T0: 5}) == {T0: 9}
    first.begin_at({T0: 9}, {T0})
    assert first.end_of({T0: 9}, {T0: 9}) == {T0: 9}
    assert first.end_of({T0: 9}, {T0: 2}) == {T0: 2}
    # The topic was created anew, which the planner reports.
    assert first.start_of({T0: 9}, {T0: 2}) == {T0: 9}
