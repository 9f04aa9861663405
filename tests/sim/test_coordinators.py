"""Clients against the real coordinators in virtual time: joins, leaves, deaths, pauses, cuts and kills of the node.

Checked with every answer: one owner per partition, commits are kept and never go back; with every record that a reader
of committed records gets: it is the next one. Checked at the end: every partition has an owner, everything is copied.
"""

from __future__ import annotations

import random

import pytest

from tests.support.coordinator_sim.copy_world import run_copy_world
from tests.support.coordinator_sim.moving import run_moving_copiers, run_moving_groups
from tests.support.coordinator_sim.world import run_group_world
from tests.support.scale import scaled


@pytest.mark.parametrize("run", range(scaled(4, 150)))
def test_classic_groups_keep_their_promises(run: int, rng: random.Random) -> None:
    world = run_group_world(rng, ["classic-a", "classic-b"])
    assert world.ledger.claims


@pytest.mark.parametrize("run", range(scaled(4, 150)))
def test_consumer_groups_keep_their_promises(run: int, rng: random.Random) -> None:
    world = run_group_world(rng, ["consumer-a", "consumer-b"])
    assert world.ledger.claims


@pytest.mark.parametrize("run", range(scaled(4, 150)))
def test_groups_that_move_between_the_protocols_keep_their_promises(run: int, rng: random.Random) -> None:
    world = run_group_world(rng, ["mixed-a"])
    assert world.ledger.claims


@pytest.mark.parametrize("run", range(scaled(6, 200)))
def test_copiers_copy_exactly_once(run: int, rng: random.Random) -> None:
    world = run_copy_world(rng)
    assert sum(copier.commits for copier in world.copiers)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
@pytest.mark.parametrize("run", range(scaled(2, 100)))
def test_groups_keep_their_promises_while_their_coordinators_move(run: int, kind: str, rng: random.Random) -> None:
    world = run_moving_groups(rng, [f"{kind}-a", f"{kind}-b"])
    assert world.ledger.claims
    assert world.moves


@pytest.mark.parametrize("run", range(scaled(4, 150)))
def test_copiers_copy_exactly_once_while_their_coordinators_move(run: int, rng: random.Random) -> None:
    world = run_moving_copiers(rng)
    assert sum(copier.commits for copier in world.copiers)
    assert world.moves
