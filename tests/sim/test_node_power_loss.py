"""The whole node under clients, kills and power cuts at random points: no promise to a client is broken.

Every run prints its seed when it fails (`CRABKA_SEED`); the message names the invariant and the last events.
"""

from __future__ import annotations

import random

import pytest

from tests.support.power_loss.world import run_world
from tests.support.scale import scaled


@pytest.mark.parametrize("run", range(scaled(8, 500)))
def test_no_promise_is_broken_by_kills_and_power_cuts(run: int, rng: random.Random) -> None:
    run_world(rng)
