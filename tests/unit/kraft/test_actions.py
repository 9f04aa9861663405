from __future__ import annotations

from typing import get_args

from crabka.kraft.actions import Action, ElectionState, PersistElection, Warn


def test_actions_are_values() -> None:
    assert PersistElection(ElectionState(3), (Warn("x"),)) == PersistElection(ElectionState(3), (Warn("x"),))
    for action in get_args(Action):
        assert action.__dataclass_params__.frozen


def test_a_new_replica_has_seen_no_epoch() -> None:
    assert ElectionState() == (0, None, None)
