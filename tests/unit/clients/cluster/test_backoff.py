"""Backoff grows, is bounded, and starts over."""

from __future__ import annotations

import random

from crabka.clients.cluster.backoff import JITTER, Backoff


def test_pauses_double_up_to_the_limit_within_the_jitter() -> None:
    backoff = Backoff(random.Random(1), initial_ms=100, max_ms=1_000)
    for expected in (100, 200, 400, 800, 1_000, 1_000):
        assert expected * (1 - JITTER) <= backoff.next_ms() <= expected * (1 + JITTER)


def test_reset_starts_over() -> None:
    backoff = Backoff(random.Random(1), initial_ms=100, max_ms=10_000)
    for _ in range(60):
        backoff.next_ms()
    backoff.reset()
    assert backoff.next_ms() <= 120
