"""What followers learn of the tier."""

from __future__ import annotations

from tests.support.async_tests import run_with
from tests.support.tier_scene import TierScene, in_scene, passes


@run_with(in_scene)
async def test_a_follower_learns_what_the_tier_holds_so_that_it_may_delete_it(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    follower.fill(2)
    follower.follow()
    await passes(2)
    assert follower.log.highest_remote_offset == -1
    leader.lead()
    await passes(3)
    # No more than it has itself.
    assert follower.log.highest_remote_offset == follower.log.log_end_offset - 1 == 24
    follower.fill(1)
    await passes(3)
    assert follower.log.highest_remote_offset == 29


@run_with(in_scene)
async def test_a_follower_believes_only_what_a_segment_proves(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    leader.lead()
    await passes(3)
    await leader.manager._segments.remove(scene.listed()[1])
    follower.fill(3)
    follower.follow()
    await passes(3)
    assert follower.log.highest_remote_offset == 9


@run_with(in_scene)
async def test_a_truncated_follower_forgets_what_it_thought_was_copied(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    follower.fill(3)
    leader.lead()
    follower.follow()
    await passes(3)
    assert follower.log.highest_remote_offset == 29
    # An unclean leader has other records from 15 on.
    leader.leave()
    follower.log.truncate_to(15)
    follower.log.leader_epochs.assign(1, 15)
    follower.fill(2, leader_epoch=1)
    assert follower.log.highest_remote_offset == 14
    await passes(3)
    assert follower.log.highest_remote_offset == 14


@run_with(in_scene)
async def test_nothing_is_learned_before_the_metadata_is_known(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2, is_ready=False)
    leader.fill(2)
    follower.fill(2)
    leader.lead()
    follower.follow()
    await passes(10)
    assert follower.log.highest_remote_offset == -1
    follower.metadata_is_up.set_result(None)
    await passes(40)
    assert follower.log.highest_remote_offset == 19
