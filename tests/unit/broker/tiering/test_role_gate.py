"""What tasks of leaders and followers wait for."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from crabka.broker.tiering.role_gate import FollowerGate
from crabka.remote.errors import NotReadyError, RemoteBackendError
from crabka.remote.removal_notice import new_removal_notice
from crabka.testing.faulty_storage import StorageFault
from tests.support.remote_segments import ORDERS
from tests.support.tier_scene import TierScene, passes

NOTICE = new_removal_notice(ORDERS, uuid.UUID(int=77), broker_id=9, now_ms=0)


class ToyMetadata:
    """Metadata that may have to be caught up with."""

    def __init__(self) -> None:
        self.is_known = True
        self.asked = 0
        self.error: Exception | None = None

    def is_ready(self, _partition: Any) -> bool:
        return self.is_known

    async def catch_up(self, _partition: Any) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error


def test_a_role_begins_when_all_that_others_wrote_is_read_and_once_per_epoch() -> None:
    metadata = ToyMetadata()
    tools: Any = type("Tools", (), {"metadata": metadata})()
    gate = FollowerGate(tools, ORDERS)
    runs: list[int] = []

    async def run_once() -> None:
        runs.append(metadata.asked)

    async def main() -> None:
        metadata.is_known = False
        with pytest.raises(NotReadyError):
            await gate.run(run_once)
        metadata.is_known, metadata.error = True, RemoteBackendError("down")
        with pytest.raises(RemoteBackendError):
            await gate.run(run_once)
        metadata.error = None
        await gate.run(run_once)
        await gate.run(run_once)
        gate.renew()
        await gate.run(run_once)

    asyncio.run(main())
    assert runs == [2, 2, 3]


def test_a_follower_relies_on_nothing_while_a_notice_stands() -> None:
    scene = TierScene()

    async def main() -> None:
        leader, follower = scene.broker(1), scene.broker(2)
        leader.fill(3)
        follower.fill(3)
        leader.lead()
        follower.follow()
        await passes(3)
        assert follower.log.tiering.highest_remote_offset == 29
        leader.leave()
        scene.rlmm.add_remote_log_segment_metadata(NOTICE)
        await passes(2)
        assert follower.log.tiering.highest_remote_offset == -1

    scene.run(main())


def test_a_leader_withdraws_the_notice_of_a_broker_that_never_committed_it() -> None:
    scene = TierScene()

    async def main() -> None:
        leader = scene.broker(1)
        leader.fill(3)
        leader.lead()
        await passes(3)
        scene.rlmm.add_remote_log_segment_metadata(NOTICE)
        leader.fill(1)
        await passes(3)
        scene.check_tidy()
        assert scene.finished_ranges()[-1] == (30, 39)
        assert leader.log.tiering.highest_remote_offset == 39

    scene.run(main())


def test_followers_keep_their_disks_when_the_topic_is_tiered_again_before_the_tier_is_empty() -> None:
    scene = TierScene()

    async def main() -> None:
        leader, follower = scene.broker(1), scene.broker(2)
        for broker in (leader, follower):
            broker.fill(3)
        leader.lead()
        follower.follow()
        await passes(3)
        down = scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down")))
        for broker in (leader, follower):
            broker.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
        await passes(3)
        for broker in (leader, follower):
            broker.set_topic(remote_storage_enable=True, remote_log_delete_on_disable=False)
        await passes(5)
        assert (leader.log.tiering.highest_remote_offset, follower.log.tiering.highest_remote_offset) == (-1, -1)
        # The leader dies, and the follower has to end the removal.
        leader.crash()
        follower.lead(1)
        await passes(5)
        assert (follower.log.tiering.highest_remote_offset, follower.log.log_start_offset) == (-1, 0)
        scene.storage.remove(down)
        await passes(60)
        scene.check_tidy()
        assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]
        assert follower.log.tiering.highest_remote_offset == 29

    scene.run(main())


def test_a_new_epoch_in_the_same_role_takes_nothing_for_granted() -> None:
    scene = TierScene()

    async def main() -> None:
        leader = scene.broker(1)
        leader.fill(3)
        leader.lead()
        await passes(3)
        # Another leader, of which this one hears only now, emptied the tier.
        for segment in scene.listed():
            await leader.manager._segments.remove(segment)
        await passes(3)
        assert scene.finished_ranges() == []
        leader.lead(2)
        await passes(3)
        assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]

    scene.run(main())
