"""A partition with many transactional producers: readers of committed records see exactly those, in order, always."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.log.partition.reads import LogReads
from crabka.log.partition.state import LogState
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.records.control import EndTransactionMarker
from tests.support.coordinators.transaction_model import TransactionWorld

RANDOMS = st.randoms(use_true_random=False)


@given(RANDOMS, st.integers(5, 60))
def test_committed_batches_are_read_in_order_at_every_step(rng: random.Random, steps: int) -> None:
    world = TransactionWorld(rng)
    for _ in range(steps):
        world.step()
        world.check()
    world.reopen(clean=True)
    world.check()
    world.reopen(clean=False)
    world.check()


def _run(seed: int, steps: int = 60) -> None:
    world = TransactionWorld(random.Random(seed))
    for _ in range(steps):
        world.step()
        world.check()


def _finds_a_fault() -> bool:
    for seed in range(20):
        try:
            _run(seed)
        except (AssertionError, pytest.fail.Exception):
            return True
    return False


def test_the_model_agrees_with_the_log_on_these_seeds() -> None:
    assert not _finds_a_fault()


def test_a_forgotten_aborted_transaction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogReads, "aborted_transactions", lambda *_: [])
    assert _finds_a_fault()


def test_a_last_stable_offset_beyond_an_open_transaction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogState, "last_stable_offset", property(lambda log: log.high_watermark))
    assert _finds_a_fault()


def test_a_guard_that_outlives_its_transaction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ProducerStateManager.check

    def lenient(self: ProducerStateManager, header: object, origin: object, **options: object) -> object:
        options.pop("guard", None)
        return check(self, header, origin, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ProducerStateManager, "check", lenient)
    assert _finds_a_fault()


def test_a_marker_that_always_commits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_marker = ProducerStateManager.apply_marker

    def committing(self: ProducerStateManager, header: object, offset: int, marker: EndTransactionMarker) -> object:
        return apply_marker(self, header, offset, marker._replace(committed=True))  # type: ignore[arg-type]

    monkeypatch.setattr(ProducerStateManager, "apply_marker", committing)
    assert _finds_a_fault()
