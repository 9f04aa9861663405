"""Waiting for a condition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crabka.embedded.waiting import note_seen, wait_until
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode


def later(*outcomes: object) -> Iterator[object]:
    yield from outcomes


def test_the_first_true_result_is_returned() -> None:
    results = later(None, 0, [], "there")
    assert wait_until(lambda: next(results), 60) == "there"


def test_missing_items_failed_assertions_and_errors_of_brokers_mean_not_yet() -> None:
    outcomes = later(IndexError("x"), AssertionError("y"), OperationError(ErrorCode.unknown_topic_or_partition, "z"), 7)

    def condition() -> object:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert wait_until(condition, 60) == 7


def test_other_errors_end_the_waiting() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, 60)


def test_the_message_says_what_was_seen_last() -> None:
    numbers = iter(range(1_000_000))
    with pytest.raises(TimeoutError) as caught:
        wait_until(lambda: note_seen("lag('g')", next(numbers)) < 0, 0.0)
    assert str(caught.value) == (
        "not true within 0 s: `wait_until(lambda: note_seen(\"lag('g')\", next(numbers)) < 0, 0.0)`\n"
        "  it returned False\n"
        "  lag('g'): 0"
    )


def test_the_message_names_functions_errors_and_own_words() -> None:
    def condition() -> bool:
        raise LookupError("group g has not committed an offset")

    with pytest.raises(TimeoutError, match=r"`.*condition`\n  it raised LookupError: group g has not") as caught:
        wait_until(condition, 0.0)
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(TimeoutError, match=r"^not true within 0 s: the group is empty\n"):
        wait_until(lambda: False, 0.0, message="the group is empty")


def test_long_values_are_cut() -> None:
    with pytest.raises(TimeoutError) as caught:
        wait_until(lambda: note_seen("values", [b"x" * 10_000] * 1_000) and False, 0.0)
    assert len(str(caught.value)) < 700


def test_a_failed_check_ends_the_waiting() -> None:
    def check() -> None:
        raise RuntimeError("the broker has failed")

    with pytest.raises(RuntimeError, match="has failed"):
        wait_until(lambda: False, 60, check=check)


def test_nothing_is_noted_outside_of_a_condition() -> None:
    assert note_seen("lag", 3) == 3
