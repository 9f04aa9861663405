"""A broker dies at every step of copying, retention and deletion: nothing gets stuck, nothing is left over or lost.

After the crash either the same broker starts again on its disk, or another replica takes over.
"""

from __future__ import annotations

import pytest

from crabka.testing.faulty_storage import StorageFault
from tests.support.async_tests import run_with
from tests.support.tier_sim.crash_steps import COPY_STEPS, RETENTION_STEPS
from tests.support.tiers.scene import GRACE_MS, SEGMENT_BYTES, TierBroker, TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import ORDERS

UPLOAD_STEPS = ("upload begins", "upload ends")
PARTITION_STEPS = (
    "delete_partition.before_marked",
    "delete_partition.after_marked",
    "delete_partition.after_started",
    "delete.after_started",
    "delete.after_data",
    "delete.after_finished",
    "delete_partition.before_finished",
)
# Grace for the leftover, grace for its second deletion, and room.
LONG_S = 3 * GRACE_MS / 1000
HEIRS = ("the same broker", "another replica")


class Crash:
    """Two replicas of a partition; the first one leads and dies somewhere, the other continues."""

    def __init__(self, scene: TierScene) -> None:
        self.scene = scene
        self.first = self.scene.broker(1)
        self.second = self.scene.broker(2)

    def fill(self, segments: int) -> None:
        """Append to both replicas."""
        self.first.fill(segments)
        self.second.fill(segments)

    def heir(self, kind: str) -> TierBroker:
        """Return who leads after the crash."""
        assert self.first.is_dead, "the step was not reached"
        return self.scene.broker(1) if kind == HEIRS[0] else self.second


def crash_at(crash: Crash, step: str) -> None:
    """Let the first broker die at a failpoint, or with its thread at work."""

    def die(_operation: str, _segment: object) -> None:
        crash.first.crash()

    if step == "upload begins":
        crash.scene.storage.add(StorageFault(operation="copy_log_segment_data", before=die, partial=True, times=1))
    elif step == "upload ends":
        crash.scene.storage.add(StorageFault(operation="copy_log_segment_data", after=die, times=1))
    else:
        crash.first.failpoints.place = step


@pytest.mark.parametrize("heir", HEIRS)
@pytest.mark.parametrize("step", [*COPY_STEPS, *UPLOAD_STEPS])
@run_with(in_scene)
async def test_a_crash_during_a_copy_leaves_nothing_stuck_orphaned_or_lost(
    scene: TierScene, /, step: str, heir: str
) -> None:

    crash = Crash(scene)
    crash.fill(3)
    crash_at(crash, step)
    crash.first.lead()
    crash.second.follow()
    await passes(3)
    leader = crash.heir(heir)
    leader.lead(1)
    await passes(10)
    # Leftovers block nothing: everything is copied long before they go.
    assert leader.log.tiering.highest_remote_offset == 29
    assert scene.records_in_tier(0, 30) == [4, 9, 14, 19, 24, 29]
    await passes(LONG_S)
    scene.check_tidy()
    assert scene.records_in_tier(0, 30) == [4, 9, 14, 19, 24, 29]


@pytest.mark.parametrize("heir", HEIRS)
@pytest.mark.parametrize("step", RETENTION_STEPS)
@run_with(in_scene)
async def test_a_crash_during_retention_is_made_good(scene: TierScene, /, step: str, heir: str) -> None:

    crash = Crash(scene)
    crash.fill(4)
    crash.first.lead()
    crash.second.follow()
    await passes(3)
    crash_at(crash, step)
    crash.first.set_topic(retention_bytes=2 * SEGMENT_BYTES)
    crash.second.set_topic()
    await passes(3)
    leader = crash.heir(heir)
    leader.lead(1)
    await passes(LONG_S)
    scene.check_tidy()
    assert scene.finished_ranges() == [(20, 29), (30, 39)]
    assert leader.log.log_start_offset == 20
    # What is not deleted is there, from the log start on and without a hole.
    assert scene.records_in_tier(20, 40) == [24, 29, 34, 39]


@pytest.mark.parametrize("owner", [1, 2])
@pytest.mark.parametrize("step", PARTITION_STEPS)
@run_with(in_scene)
async def test_a_crash_during_the_deletion_of_a_topic_is_made_good_by_the_owner(
    scene: TierScene, /, step: str, owner: int
) -> None:

    crash = Crash(scene)
    scene.cluster.owner = owner
    crash.fill(3)
    crash.first.lead()
    crash.second.follow()
    await passes(3)
    crash_at(crash, step)
    crash.second.leave(is_deleted=True)
    crash.first.leave(is_deleted=True)
    await passes(0.9)
    assert crash.first.is_dead
    assert scene.rlmm.partitions() == [ORDERS]
    if owner == 1:
        scene.broker(1)
    await passes(10)
    assert scene.rlmm.partitions() == []
    assert scene.store.segment_ids() == []


@pytest.mark.parametrize("heir", HEIRS)
@pytest.mark.parametrize("step", ["delete.before_started", "delete.after_started", "delete.after_data"])
@run_with(in_scene)
async def test_a_crash_while_a_leftover_is_removed_is_made_good(scene: TierScene, /, step: str, heir: str) -> None:

    crash = Crash(scene)
    crash.fill(2)
    scene.storage.add(StorageFault(operation="copy_log_segment_data", partial=True, times=1))
    crash_at(crash, step)
    crash.first.lead()
    crash.second.follow()
    await passes(3)
    leader = crash.heir(heir)
    leader.lead(1)
    await passes(LONG_S)
    scene.check_tidy()
    assert scene.records_in_tier(0, 20) == [4, 9, 14, 19]


@pytest.mark.parametrize("count", [1, 2, 3])
@run_with(in_scene)
async def test_crash_after_crash_ends_well(scene: TierScene, /, count: int) -> None:

    broker = scene.broker(1)
    broker.fill(3)
    for number in range(count):
        for step in COPY_STEPS:
            broker.failpoints.place = step
            broker.lead(number)
            await passes(3)
            if broker.is_dead:
                broker = scene.broker(1)
    broker.lead(count)
    await passes(LONG_S)
    scene.check_tidy()
    assert scene.records_in_tier(0, 30) == [4, 9, 14, 19, 24, 29]


def test_every_failpoint_is_crashed_at() -> None:
    """The steps above are those that the code names."""
    scene = TierScene()

    async def main() -> set[str]:
        broker = scene.broker()
        broker.fill(3)
        broker.lead()
        await passes(3)
        broker.set_topic(retention_bytes=0)
        await passes(3)
        broker.leave(is_deleted=True)
        await passes(3)
        return set(broker.failpoints.reached)

    assert scene.run(main()) == {*COPY_STEPS, *RETENTION_STEPS, *PARTITION_STEPS}
