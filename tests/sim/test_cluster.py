"""Whole clusters of real nodes under clients and faults, in virtual time.

`python -m tests.support.cluster_sim --seed N --trace` replays a seed; the message of a failure names the invariant.
"""

from __future__ import annotations

import pytest

from tests.support.cluster_sim.world import run_world
from tests.support.scale import scaled

SEEDS = range(1, 1 + scaled(6, 200))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_through_a_storm_of_faults(seed: int) -> None:
    world = run_world(seed)
    assert world.model.acknowledged_count
    assert world.watch.looks


@pytest.mark.parametrize("seed", [3, 4])
def test_a_seed_tells_the_same_story_twice(seed: int) -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        run_world(seed, listener=story.append)
    assert stories[0] == stories[1]
