"""The simulation of the coordinators finds what it is there to find: each planted bug breaks a named invariant."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.coordinator import GroupCoordinator
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinator_sim.world import run_group_world
from tests.support.power_loss.trace import BrokenInvariantError

# Enough for each bug; the first that breaks an invariant ends the search.
SEEDS = range(1, 31)
# Keys of `__consumer_offsets` begin with their kind.
HIGHEST_OFFSET_KEY = 1


def take_commits_of_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicGroup, "_commit_attempt", lambda *_: ErrorCode.none)


def acknowledge_commits_that_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    append = GroupCoordinator.append

    def forget(groups: GroupCoordinator, hosted: Any, pairs: Any, done: Any) -> None:
        if all(int.from_bytes(key[:2]) <= HIGHEST_OFFSET_KEY for key, _ in pairs):
            done(ErrorCode.none)
        else:
            append(groups, hosted, pairs, done)

    monkeypatch.setattr(GroupCoordinator, "append", forget)


def end_sessions_in_spite_of_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicGroup, "extend_session", lambda *_: None)


BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = [
    (take_commits_of_anybody, "classic-a", "commits are kept and never go back"),
    (acknowledge_commits_that_are_not_stored, "classic-a", "commits are kept and never go back"),
    (end_sessions_in_spite_of_heartbeats, "classic-a", "one owner per partition"),
]


@pytest.mark.parametrize(("plant", "group", "invariant"), BUGS, ids=[plant.__name__ for plant, _, _ in BUGS])
def test_a_planted_bug_of_the_groups_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], group: str, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    broken = (_broken_invariant(seed, group) for seed in SEEDS)
    assert next((name for name in broken if name is not None), "none") == invariant


def _broken_invariant(seed: int, group: str) -> str | None:
    try:
        run_group_world(random.Random(seed), [group])
    except BrokenInvariantError as error:
        return error.name
    return None
