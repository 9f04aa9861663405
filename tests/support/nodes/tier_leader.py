"""A leader whose log starts in the tier."""

from __future__ import annotations

from crabka.broker.replication.followed import FollowedPartition
from tests.support.nodes.follower import FollowerWorld, ToyLeader
from tests.support.quorum.images import topic_id_of
from tests.support.storage.small import NOW_MS, append, make_batch
from tests.support.tiers.remote_reading import TierWorld


async def tier_led(world: FollowerWorld, *epochs: int) -> tuple[ToyLeader, TierWorld, FollowedPartition]:
    """Return a leader with a segment of three records in each epoch, all but the last two in the tier only."""
    leader = await world.add_leader()
    world.place({"leader": -1}, remote_storage_enable="true")
    tier = TierWorld(loop=world.loop, topic_id=topic_id_of("t"))
    for epoch in epochs:
        append(tier.log, make_batch(3), leader_epoch=epoch)
        tier.log.roll(NOW_MS)
    tier.tier(limit=len(epochs) - 1)
    for _ in range(len(epochs) - 2):
        tier.log.retention.drop_oldest_tiered(1 << 62)
    leader.logs[topic_id_of("t"), 0] = tier.log
    return leader, tier, FollowedPartition(world.partition(0), backoff_ms=1)
