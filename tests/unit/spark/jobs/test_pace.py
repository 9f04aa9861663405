"""Records leave at a rate, and pauses are not made up for."""

from __future__ import annotations

from crabka.spark.jobs.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_rate_is_kept() -> None:
    clock = Clock()
    pace = Pace(10, now=lambda: clock.now, sleep=clock.sleep)
    for _ in range(4):
        pace.wait(5)
    assert clock.slept == [0.5, 0.5, 0.5]


def test_pauses_are_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(10, now=lambda: clock.now, sleep=clock.sleep)
    pace.wait(5)
    clock.now += 60
    pace.wait(5)
    pace.wait(5)
    assert clock.slept == [0.5]


def test_without_a_rate_there_is_no_wait() -> None:
    clock = Clock()
    pace = Pace(None, now=lambda: clock.now, sleep=clock.sleep)
    pace.wait(1_000_000)
    assert clock.slept == []
