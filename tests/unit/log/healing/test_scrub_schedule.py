"""The order of checks."""

from __future__ import annotations

from collections.abc import Sequence

from crabka.ids import TopicPartition
from crabka.log.healing.scrub_schedule import MAX_SUSPECTED, RETRY_MS, ScrubJob, ScrubSchedule

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def logs() -> Sequence[TopicPartition]:
    return [A, B]


def next_job(schedule: ScrubSchedule, now_ms: int, *, is_enabled: bool = True) -> ScrubJob | None:
    return schedule.next_job(now_ms, logs, is_enabled=is_enabled)


def test_a_pass_goes_over_all_logs_and_the_next_one_waits_for_the_interval() -> None:
    schedule = ScrubSchedule()
    assert next_job(schedule, 10**15) is None
    schedule.begin(100)
    assert (next_job(schedule, 99), schedule.wait_ms(40)) == (None, 60)
    for expected in (A, B):
        job = next_job(schedule, 100)
        assert job is not None
        assert tuple(job) == (expected, None, False)
        assert not schedule.end_pass(150, 1000)
        schedule.done(job)
    assert schedule.end_pass(150, 1000)
    assert (schedule.progress.passes, schedule.progress.last_pass_ms) == (1, 150)
    assert next_job(schedule, 1099) is None
    assert next_job(schedule, 1100) is not None


def test_a_suspicion_comes_first_and_even_while_checks_are_off() -> None:
    schedule = ScrubSchedule()
    schedule.begin(0)
    assert next_job(schedule, 0) == (A, None, False)
    assert schedule.suspect(B, 50, 0)
    assert schedule.suspect(B, 70, 0)
    assert next_job(schedule, 0, is_enabled=False) == ScrubJob(B, frozenset({50, 70}), is_urgent=True)
    assert next_job(schedule, 0, is_enabled=False) is None
    assert next_job(schedule, 0) == (B, None, False)


def test_one_suspicion_is_looked_into_once_in_a_while() -> None:
    schedule = ScrubSchedule()
    assert schedule.suspect(A, 0, 1000)
    assert not schedule.suspect(A, 0, 1000 + RETRY_MS - 1)
    assert schedule.suspect(A, 0, 1000 + RETRY_MS)


def test_suspicions_are_bounded() -> None:
    schedule = ScrubSchedule()
    assert all(schedule.suspect(TopicPartition("t", index), 0, 0) for index in range(MAX_SUSPECTED))
    assert not schedule.suspect(A, 0, 0)


def test_a_repair_is_tried_again_later() -> None:
    schedule = ScrubSchedule()
    schedule.retry(A, 500)
    assert schedule.next_retry(500) is None
    assert schedule.wait_ms(500) == RETRY_MS
    assert schedule.next_retry(500 + RETRY_MS) == A
    assert schedule.next_retry(500 + RETRY_MS) is None


def test_a_pass_can_be_hastened_and_begins_anew_then() -> None:
    schedule = ScrubSchedule()
    schedule.begin(10_000)
    schedule.hasten()
    assert next_job(schedule, 5) == (A, None, False)
    schedule.hasten()
    assert next_job(schedule, 6) == (A, None, False)
    assert schedule.progress.pass_started_ms == 6


def test_a_pass_over_nothing_ends() -> None:
    schedule = ScrubSchedule()
    schedule.begin(0)
    assert schedule.next_job(0, list, is_enabled=True) is None
    assert schedule.end_pass(0, 100)
