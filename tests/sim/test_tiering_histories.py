"""Random histories of a tiered partition: leaders change, logs are cut, brokers die, storages fail, settings change.

What was acknowledged and not deleted is read with the same bytes at every quiet moment, from disks and the tier; in the
end nothing is stuck, left over or damaged. A failure names its seed: `TierHistoryWorld(seed).run()` repeats it.
"""

from __future__ import annotations

import pytest

from tests.support.scale import scaled
from tests.support.tier_sim.world import TierHistoryWorld

SEEDS = range(scaled(20, 500))
# Lost disks: a follower that shared nothing with its leader, a read of a node that died, a copy that was begun late,
# a tier that begins after the log ends.
FOUND = (1904, 2582, 3387, 2760)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_stays_readable_from_any_leader_and_wherever_it_lies(seed: int) -> None:
    TierHistoryWorld(seed).run()


@pytest.mark.parametrize("seed", [*range(scaled(12, 500)), *FOUND])
def test_a_leader_with_an_empty_disk_goes_on_after_the_tier(seed: int) -> None:
    TierHistoryWorld(seed, loses_disks=True).run()


def test_histories_reach_what_they_are_there_for() -> None:
    worlds = [TierHistoryWorld(seed) for seed in range(1000, 1030)]
    for world in worlds:
        world.run()
    clusters = [world.cluster for world in worlds]
    assert sum(world.quiet_count for world in worlds) > 30
    assert sum(cluster.remote_read_count for cluster in clusters) > 10
    assert sum(cluster.rebuild_count for cluster in clusters) > 0
    assert sum(cluster.unclean_count for cluster in clusters) > 5


def test_histories_of_lost_disks_reach_what_they_are_there_for() -> None:
    worlds = [TierHistoryWorld(seed, loses_disks=True) for seed in range(15)]
    for world in worlds:
        world.run()
    assert sum(world.cluster.settle_count for world in worlds) > 5


def test_a_seed_gives_the_same_story_twice() -> None:
    first, second = TierHistoryWorld(4), TierHistoryWorld(4)
    first.run()
    second.run()
    assert first.trace == second.trace
