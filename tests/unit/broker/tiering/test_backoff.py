"""Pauses after failures."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from crabka.broker.tiering.backoff import TaskBackoff


def backoff(jitter: float = 0.2) -> TaskBackoff:
    config: Any = SimpleNamespace(
        remote_log_manager_task_retry_backoff_ms=500,
        remote_log_manager_task_retry_backoff_max_ms=30_000,
        remote_log_manager_task_retry_jitter=jitter,
    )
    return TaskBackoff(lambda: config, random.Random(5))


def test_pauses_double_up_to_the_longest() -> None:
    pauses = backoff(0.0)
    assert [pauses.next_ms() for _ in range(8)] == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]


def test_a_success_begins_anew() -> None:
    pauses = backoff(0.0)
    pauses.next_ms()
    pauses.next_ms()
    pauses.reset()
    assert pauses.next_ms() == 500


def test_jitter_spreads_the_pauses_within_its_share() -> None:
    firsts = []
    for seed in range(200):
        pauses = backoff()
        pauses._rng = random.Random(seed)
        firsts.append(pauses.next_ms())
    assert all(400 <= pause <= 600 for pause in firsts)
    assert min(firsts) < 420
    assert max(firsts) > 580


def test_no_pause_is_longer_than_the_longest() -> None:
    pauses = backoff()
    assert max(pauses.next_ms() for _ in range(100)) <= 30_000
