"""Random tests repeat with the same seed."""

from __future__ import annotations

import pytest

from tests.support.seeds import SEED_VARIABLE, base_seed, replay_hint, rng_for


def test_the_same_seed_and_test_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "7")
    assert rng_for("a").random() == rng_for("a").random()
    assert rng_for("a").random() != rng_for("b").random()


def test_another_seed_gives_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "7")
    first = rng_for("a").random()
    monkeypatch.setenv(SEED_VARIABLE, "8")
    assert rng_for("a").random() != first


def test_a_soak_draws_a_seed_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_SOAK", "1")
    monkeypatch.setenv(SEED_VARIABLE, "")
    drawn = base_seed()
    assert base_seed() == drawn
    assert f"{SEED_VARIABLE}={drawn} " in replay_hint("tests/x.py::test_y")
