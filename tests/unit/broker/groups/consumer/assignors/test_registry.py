"""Assignors by name."""

from __future__ import annotations

from crabka.broker.groups.consumer.assignors.registry import ASSIGNORS
from crabka.broker.groups.consumer.settings import ConsumerSettings


def test_all_that_are_offered_by_default_are_there() -> None:
    assert set(ConsumerSettings().assignors) == set(ASSIGNORS)
