"""The simulation of clusters finds what it is there to find: each planted bug breaks a named invariant."""

from __future__ import annotations

import pytest

from tests.support.cluster_sim.layout import Shape
from tests.support.cluster_sim.planted import BUGS, PlantedBug
from tests.support.cluster_sim.world import RunConditions, run_world
from tests.support.power_loss.trace import BrokenInvariantError

# Enough for each bug; the first that breaks an invariant ends the search.
SEEDS = range(1, 11)


@pytest.mark.parametrize("bug", BUGS, ids=[bug.plant.__name__ for bug in BUGS])
def test_a_planted_bug_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    broken = (_broken_invariant(seed, bug) for seed in dict.fromkeys((bug.first_seed, *SEEDS)))
    assert next((name for name in broken if name is not None), "none") in bug.invariants


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=[bug.script.__name__ for bug in BUGS])
def test_without_a_bug_nothing_is_found(bug: PlantedBug) -> None:
    assert _broken_invariant(1, bug) is None


def _broken_invariant(seed: int, bug: PlantedBug) -> str | None:
    conditions = RunConditions(
        shape=Shape.SPLIT,
        script=bug.script,
        copies=bug.copies,
        operates=bug.operates,
        producer_pause_s=0.2 if bug.copies else 0.02,
        patience_s=25,
    )
    try:
        run_world(seed, conditions)
    except BrokenInvariantError as error:
        return error.name
    return None
