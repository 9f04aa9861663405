from __future__ import annotations

import pytest

from crabka.security.quotas.table import Applied
from crabka.security.quotas.usage import BudgetUsage, RateUsage
from crabka.security.quotas.windows import WindowSettings

ALICE, BOB = Applied(("alice", None), 100.0), Applied(("bob", None), 100.0)


def test_clients_are_measured_apart_and_sharers_together() -> None:
    usage = RateUsage(WindowSettings())
    assert usage.record(ALICE, 1000, 0) == 0
    assert usage.record(BOB, 1000, 0) == 0
    assert usage.record(ALICE, 100, 0) == 1000


def test_what_was_not_sent_is_taken_back() -> None:
    usage = RateUsage(WindowSettings())
    assert usage.record(ALICE, 2000, 0) > 0
    usage.take_back(ALICE, 2000, 0)
    assert usage.record(ALICE, 1000, 0) == 0


def test_waits_for_the_processor_have_a_limit() -> None:
    assert RateUsage(WindowSettings(), longest_ms=1000).record(ALICE, 10_000, 0) == 1000


def test_the_most_that_a_client_may_take_at_once() -> None:
    assert RateUsage(WindowSettings(count=11, length_ms=2000)).most_at_once(ALICE) == 2000


@pytest.mark.parametrize("kind", ["rates", "budgets"])
def test_the_client_that_was_quiet_for_longest_starts_anew(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("crabka.security.quotas.usage.MAX_MEASURED", 2)
    carol = Applied(("carol", None), 100.0)
    if kind == "rates":
        rates = RateUsage(WindowSettings())
        for quota in (ALICE, BOB, ALICE, carol):
            rates.record(quota, 600, 0)
        assert (rates.record(ALICE, 1, 0) > 0, rates.record(BOB, 1, 0) > 0) == (True, False)
    else:
        budgets = BudgetUsage(WindowSettings())
        for quota in (ALICE, BOB, ALICE, carol):
            budgets.take(quota, 600, 0)
        assert (budgets.throttle_ms(ALICE, 0) > 0, budgets.throttle_ms(BOB, 0) > 0) == (True, False)
