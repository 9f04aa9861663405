"""What followers learn of the tier."""

from __future__ import annotations

from tests.support.tier_scene import TierScene, passes


def test_a_follower_learns_what_the_tier_holds_so_that_it_may_delete_it() -> None:
    scene = TierScene()

    async def main() -> None:
        leader, follower = scene.broker(1), scene.broker(2)
        leader.fill(3)
        follower.fill(2)
        follower.follow()
        await passes(2)
        assert follower.log.tiering.highest_remote_offset == -1
        leader.lead()
        await passes(3)
        # No more than it has itself.
        assert follower.log.tiering.highest_remote_offset == follower.log.log_end_offset - 1 == 24
        follower.fill(1)
        await passes(3)
        assert follower.log.tiering.highest_remote_offset == 29

    scene.run(main())


def test_a_follower_believes_only_what_a_segment_proves() -> None:
    scene = TierScene()

    async def main() -> None:
        leader, follower = scene.broker(1), scene.broker(2)
        leader.fill(3)
        leader.lead()
        await passes(3)
        await leader.manager._segments.remove(scene.listed()[1])
        follower.fill(3)
        follower.follow()
        await passes(3)
        assert follower.log.tiering.highest_remote_offset == 9

    scene.run(main())


def test_a_truncated_follower_forgets_what_it_thought_was_copied() -> None:
    scene = TierScene()

    async def main() -> None:
        leader, follower = scene.broker(1), scene.broker(2)
        leader.fill(3)
        follower.fill(3)
        leader.lead()
        follower.follow()
        await passes(3)
        assert follower.log.tiering.highest_remote_offset == 29
        # An unclean leader has other records from 15 on.
        leader.leave()
        follower.log.truncation.truncate_to(15)
        follower.log.leader_epochs.assign(1, 15)
        follower.fill(2, leader_epoch=1)
        assert follower.log.tiering.highest_remote_offset == 14
        await passes(3)
        assert follower.log.tiering.highest_remote_offset == 14

    scene.run(main())


def test_nothing_is_learned_before_the_metadata_is_known() -> None:
    scene = TierScene()

    async def main() -> None:
        leader, follower = scene.broker(1), scene.broker(2, is_ready=False)
        leader.fill(2)
        follower.fill(2)
        leader.lead()
        follower.follow()
        await passes(10)
        assert follower.log.tiering.highest_remote_offset == -1
        follower.metadata_is_up.set_result(None)
        await passes(40)
        assert follower.log.tiering.highest_remote_offset == 19

    scene.run(main())
