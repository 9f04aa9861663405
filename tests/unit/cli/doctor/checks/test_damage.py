"""Findings about damage in logs."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.damage import DamagedRange, DamageFacts, find_damage
from crabka.cli.doctor.finding import NotApplicableError
from crabka.ids import TopicPartition
from tests.support.doctor.findings import line, only, texts


def test_brokers_without_damage_are_fine() -> None:
    outcome = find_damage(DamageFacts([], 2, [1, 2], ["broker 3: no metrics"]))
    assert texts(outcome) == [("ok", "no damaged ranges on brokers 1, 2, 2 ranges repaired")]
    assert outcome.unknown == ["broker 3: no metrics"]


def test_damaged_ranges_are_errors() -> None:
    damaged = DamagedRange(2, TopicPartition("t", 0), 1_000, 1_999, "/d/t-0/0.log")
    found = only(find_damage(DamageFacts([damaged], 0, [2])))
    assert found.reason == (
        "Offsets 1,000 to 1,999 of t-0 cannot be read on broker 2: /d/t-0/0.log is damaged and no other copy was found."
    )
    assert (found.severity.value, line(found)) == ("error", "crabka log-dirs check --broker 2 --now")


def test_without_metrics_nothing_is_known() -> None:
    with pytest.raises(NotApplicableError, match="broker 1: no metrics"):
        find_damage(DamageFacts([], 0, [], ["broker 1: no metrics"]))
    with pytest.raises(NotApplicableError, match=r"crabka\.http\.listener"):
        find_damage(DamageFacts([], 0, []))
