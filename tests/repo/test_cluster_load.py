"""The judges of the cluster tests find what they look for: loss, repetition, disorder, silence."""

from __future__ import annotations

import pytest

from tests.support.cluster_process.faults import FaultKind, OutageRecord, report
from tests.support.cluster_process.load import UNTOLD, check_numbers, longest_silence


def test_records_that_are_all_there_pass() -> None:
    check_numbers("p", 3, {0: 10, 1: UNTOLD, 2: 14}, {10: 0, 12: 1, 14: 2})


@pytest.mark.parametrize(
    ("sent", "acknowledged", "found", "complaint"),
    [
        (2, {0: 5, 1: 6}, {5: 0}, "1 of 2 acknowledged records are not there"),
        (2, {0: 5, 1: 6}, {5: 0, 7: 1}, "1 records are not at the offset that was reported"),
        (2, {0: 5}, {5: 0, 6: 1, 7: 1}, "records are there twice"),
        (2, {}, {5: 1, 6: 0}, "out of order"),
        (3, {0: 5}, {5: 0, 6: 1}, "2 of 3 records are there"),
    ],
)
def test_broken_promises_are_found(
    sent: int, acknowledged: dict[int, int], found: dict[int, int], complaint: str
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_numbers("p", sent, acknowledged, found)


@pytest.mark.parametrize(
    ("moments", "begin", "end", "expected"),
    [
        ([1.0, 2.0, 5.0, 6.0], 2.5, 5.5, 3.0),
        ([1.0, 2.0, 5.0, 6.0], 3.0, 4.0, 3.0),
        ([0.0, 9.0, 10.0, 11.0], 9.5, 10.5, 1.0),
        ([1.0], 2.0, 4.0, 3.0),
        ([1.0, 1.5], 1.2, 4.0, 2.5),
        ([], 2.0, 4.0, 2.0),
    ],
)
def test_silence_is_measured_around_a_fault(moments: list[float], begin: float, end: float, expected: float) -> None:
    assert longest_silence(moments, begin, end) == expected


def test_report_has_a_row_for_each_kind_and_victim() -> None:
    outages = [
        OutageRecord(FaultKind.KILL, 1, was_controller=True, seconds=2.0),
        OutageRecord(FaultKind.KILL, 2, was_controller=False, seconds=1.0),
        OutageRecord(FaultKind.PAUSE, 2, was_controller=False, seconds=9.5),
    ]
    assert report("Three nodes", outages).splitlines() == [
        "# Three nodes",
        "",
        "| fault | count | median | worst |",
        "|---|---|---|---|",
        "| SIGSTOP, all | 1 | 9.50 s | 9.50 s |",
        "| SIGSTOP of another node | 1 | 9.50 s | 9.50 s |",
        "| kill -9, all | 2 | 1.50 s | 2.00 s |",
        "| kill -9 of another node | 1 | 1.00 s | 1.00 s |",
        "| kill -9 of the active controller | 1 | 2.00 s | 2.00 s |",
    ]
