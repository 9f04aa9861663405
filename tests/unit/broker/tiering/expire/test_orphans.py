"""Deletions that no other broker finishes."""

from __future__ import annotations

import pytest

from crabka.remote.errors import RemoteBackendError
from crabka.testing.faulty_storage import StorageFault
from tests.support.async_tests import run_with
from tests.support.tiers.scene import TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import ORDERS


@run_with(in_scene)
async def test_the_owner_finishes_the_deletion_of_a_topic_whose_leader_crashed(scene: TierScene, /) -> None:
    scene.cluster.owner = 2

    leader = scene.broker(1)
    scene.broker(2)
    leader.fill(3)
    leader.lead()
    await passes(3)
    leader.crash()
    # No leader of the partition receives the deletion.
    scene.cluster.deleted.add(ORDERS)
    await passes(5)
    assert scene.rlmm.partitions() == []
    assert scene.store.segment_ids() == []
    assert scene.cluster.catch_ups == 1


@run_with(in_scene)
async def test_only_the_owner_does(scene: TierScene, /) -> None:
    scene.cluster.owner = 3

    leader = scene.broker(1)
    scene.broker(2)
    leader.fill(1)
    leader.lead()
    await passes(3)
    leader.crash()
    scene.cluster.deleted.add(ORDERS)
    await passes(60)
    assert len(scene.finished_ranges()) == 1


@run_with(in_scene)
async def test_what_exists_is_left_alone(scene: TierScene, /) -> None:
    scene.cluster.owner = 2

    leader = scene.broker(1)
    scene.broker(2)
    leader.fill(2)
    leader.lead()
    await passes(60)
    assert len(scene.finished_ranges()) == 2
    assert scene.cluster.catch_ups == 0


@run_with(in_scene)
async def test_a_broker_that_lags_behind_the_controller_deletes_nothing_that_was_just_created(
    scene: TierScene, /
) -> None:
    scene.cluster.owner = 2
    # It does not know the topic until it catches up.
    scene.cluster.deleted.add(ORDERS)
    scene.cluster.news = scene.cluster.deleted.clear

    leader = scene.broker(1)
    scene.broker(2)
    leader.fill(2)
    leader.lead()
    await passes(10)
    assert scene.cluster.catch_ups == 1
    assert len(scene.finished_ranges()) == 2


@run_with(in_scene)
async def test_the_former_leader_gets_time_to_delete_it_itself(scene: TierScene, /) -> None:
    scene.cluster.owner = 2

    leader, owner = scene.broker(1), scene.broker(2)
    leader.fill(3)
    leader.lead()
    await passes(3)
    leader.leave(is_deleted=True)
    await passes(5)
    assert scene.rlmm.partitions() == []
    assert not [name for name in owner.failpoints.reached if name.startswith("delete")]


def test_a_sweep_that_fails_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    scene = TierScene()

    async def main() -> None:
        leader = scene.broker(2)
        scene.broker(1)
        leader.fill(1)
        leader.lead()
        await passes(3)
        leader.crash()
        scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down"), times=2))
        scene.cluster.deleted.add(ORDERS)
        await passes(10)
        assert scene.rlmm.partitions() == []

    scene.run(main())
    assert "down" in caplog.text
