"""Findings about clocks."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.clock import ClockFacts, ClockReading, find_clock
from tests.support.doctor.findings import line, only

ASKED, ANSWERED = 1_000_000, 1_000_400


def reading(node_ms: int) -> ClockReading:
    return ClockReading(1, node_ms, ASKED, ANSWERED)


@pytest.mark.parametrize(
    ("node_ms", "severity", "text"),
    [
        (ASKED, "ok", "the clock of controller 1 agrees with this machine"),
        (ANSWERED, "ok", "the clock of controller 1 agrees with this machine"),
        # Within what is tolerated, after the time of the request itself.
        (ANSWERED + 999, "ok", "the clock of controller 1 agrees with this machine"),
        (ANSWERED + 1_000, "warning", "The clock of node 1 is 1s ahead of that of this machine."),
        (ASKED - 5_000, "warning", "The clock of node 1 is 5s behind that of this machine."),
        (ASKED - 60_000, "error", "The clock of node 1 is 1m 0s behind that of this machine."),
        (ANSWERED + 7_200_000, "error", "The clock of node 1 is 2h 0m ahead of that of this machine."),
    ],
)
def test_the_clock_of_the_controller(node_ms: int, severity: str, text: str) -> None:
    found = only(find_clock(ClockFacts([reading(node_ms)], [])))
    assert (found.severity.value, found.reason) == (severity, text)
    assert line(found) == ("" if severity == "ok" else "timedatectl set-ntp true")


def test_a_slow_answer_says_nothing_within_its_time() -> None:
    slow = ClockReading(1, ASKED + 30_000, ASKED, ASKED + 60_000)
    assert only(find_clock(ClockFacts([slow], []))).severity.value == "ok"


def test_a_record_from_the_future_shows_a_clock_that_is_ahead() -> None:
    stamped = [ClockReading(2, 2_000_000, 2_000_000, ANSWERED), ClockReading(3, 5, 5, ANSWERED)]
    found = only(find_clock(ClockFacts([reading(ASKED)], stamped)))
    assert found.reason == "The clock of node 2 is 16m 39s ahead of that of this machine."


def test_brokers_without_a_reported_time_are_named() -> None:
    assert find_clock(ClockFacts([reading(ASKED)], [], [2, 3])).unknown == ["no answer has the time of brokers 2, 3"]
