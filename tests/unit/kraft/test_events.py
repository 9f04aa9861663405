from __future__ import annotations

from typing import get_args

from crabka.kraft.events import Event


def test_events_are_values() -> None:
    for event in get_args(Event):
        assert event.__dataclass_params__.frozen
        assert "__slots__" in vars(event)
