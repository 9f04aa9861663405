"""Partitions whose topic has left the tier: late copies of former leaders do not stay there."""

from __future__ import annotations

import pytest

from crabka.remote.removal_notice import is_removal_notice
from crabka.remote.segments import RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState
from tests.support.async_tests import run_with
from tests.support.tiers.scene import GRACE_MS, TierBroker, TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import DELETING, FINISHED, ORDERS, STARTED, remote_segment


async def leave_tier(scene: TierScene) -> TierBroker:
    """Return a leader whose topic has left the tier, which is empty."""
    broker = scene.broker()
    broker.fill(1)
    broker.lead()
    await passes(3)
    broker.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
    await passes(5)
    assert scene.listed() == []
    return broker


@pytest.mark.parametrize("state", [STARTED, FINISHED, DELETING])
@run_with(in_scene)
async def test_a_copy_that_a_former_leader_began_late_is_removed_after_the_grace_period(
    scene: TierScene, /, state: RemoteLogSegmentState
) -> None:

    await leave_tier(scene)
    late = remote_segment(0, 9, state=STARTED, broker_id=2)
    scene.rlmm.add_remote_log_segment_metadata(late)
    if state is not STARTED:
        scene.rlmm.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(
                segment_id=late.segment_id, event_timestamp_ms=0, state=state, broker_id=2, custom_metadata=None
            )
        )
    await passes(GRACE_MS / 2000)
    # Its upload may still be on its way.
    assert [each.state for each in scene.listed()] == [state]
    await passes(3 * GRACE_MS / 1000)
    assert scene.listed() == []
    scene.check_tidy()


@run_with(in_scene)
async def test_what_comes_after_the_topic_is_tiered_again_stays(scene: TierScene, /) -> None:

    broker = await leave_tier(scene)
    broker.set_topic(remote_storage_enable=True, remote_log_delete_on_disable=False)
    await passes(5 * GRACE_MS / 1000)
    assert scene.finished_ranges() == [(0, 9)]
    assert not any(map(is_removal_notice, scene.listed()))


@pytest.mark.parametrize("is_deleted", [False, True])
@run_with(in_scene)
async def test_the_next_leader_looks_and_this_one_no_longer(scene: TierScene, /, *, is_deleted: bool) -> None:

    broker = await leave_tier(scene)
    assert ORDERS in broker.manager._untiered
    if is_deleted:
        broker.leave(is_deleted=True)
    else:
        broker.follow()
    assert ORDERS not in broker.manager._untiered
    await passes(3 * GRACE_MS / 1000)
    assert (ORDERS in scene.rlmm.partitions()) is not is_deleted
