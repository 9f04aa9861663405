"""Groups against the real coordinator in virtual time: joins, leaves, deaths, pauses, cuts and kills of the node.

Checked with every answer: one owner per partition, commits are kept and never go back. Checked at the end: every
partition has an owner.
"""

from __future__ import annotations

import random

import pytest

from tests.support.coordinator_sim.world import run_group_world
from tests.support.scale import scaled


@pytest.mark.parametrize("run", range(scaled(4, 150)))
def test_classic_groups_keep_their_promises(run: int, rng: random.Random) -> None:
    world = run_group_world(rng, ["classic-a", "classic-b"])
    assert world.ledger.claims
