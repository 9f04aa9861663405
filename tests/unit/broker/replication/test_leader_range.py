from __future__ import annotations

from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_state import LeaderRangeKnown, LeaderTierKnown
from crabka.broker.replication.leader_range import ask_leader_ranges, ask_leader_tiers
from crabka.clients.cluster.connection import Connection
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.follower import FOLLOWER, PORT, FollowerWorld, ToyLeader, follow
from tests.support.nodes.tier_leader import tier_led
from tests.support.storage.small import append, make_batch


async def connect(world: FollowerWorld) -> Connection:
    return await Connection.open(world.runtime.network, "host-1", PORT)


async def led(world: FollowerWorld) -> tuple[ToyLeader, list[FollowedPartition]]:
    """Return a leader of three logs with 0, 3 and 6 records, and those who follow."""
    leader = await world.add_leader()
    world.place(*[{"leader": -1}] * 3)
    for index in range(3):
        log = leader.lead(index)
        for _ in range(index):
            append(log, make_batch(3), leader_epoch=5)
    return leader, [FollowedPartition(world.partition(index), backoff_ms=1) for index in range(3)]


@run_with(follow)
async def test_the_range_of_many_partitions_takes_two_requests(world: FollowerWorld, /) -> None:
    leader, followed = await led(world)
    leader.logs[world.partition().topic_id, 2].retention.delete_records_before(4)
    connection = await connect(world)
    ranges = await ask_leader_ranges(connection, FOLLOWER, followed)
    assert list(ranges.values()) == [LeaderRangeKnown(0, 0), LeaderRangeKnown(0, 3), LeaderRangeKnown(4, 6)]
    requests = leader.broker.asked(ApiKey.LIST_OFFSETS)
    assert [request.body.topics[0].partitions[0].timestamp for request in requests] == [-1, -2]
    assert all(request.body.replica_id == FOLLOWER for request in requests)
    assert requests[0].body.topics[0].partitions[1].current_leader_epoch == 5
    connection.close()


@run_with(follow)
async def test_a_partition_with_an_error_is_left_out(world: FollowerWorld, /) -> None:
    leader, followed = await led(world)
    connection = await connect(world)
    leader.errors[-1] = ErrorCode.fenced_leader_epoch
    assert await ask_leader_ranges(connection, FOLLOWER, followed) == {}
    connection.close()


@run_with(follow)
async def test_a_leader_that_names_no_offset_is_not_followed_there(world: FollowerWorld, /) -> None:
    leader, followed = await led(world)
    connection = await connect(world)
    leader.logs[world.partition().topic_id, 1].state.log_end_offset = -1
    ranges = await ask_leader_ranges(connection, FOLLOWER, followed)
    assert [each.partition.index for each in ranges] == [0, 2]
    connection.close()


@run_with(follow)
async def test_a_follower_learns_behind_which_record_it_can_fetch(world: FollowerWorld, /) -> None:
    leader, tier, followed = await tier_led(world, 0, 0, 2, 4)
    tier.log.retention.delete_records_before(1)
    connection = await connect(world)
    known = await ask_leader_tiers(connection, FOLLOWER, [followed], skips_tiered=False)
    # The leader's disk begins at 6 with epoch 2; the record before is of epoch 0.
    assert known == {followed: LeaderTierKnown(1, 5, 0)}
    assert leader.broker.asked(ApiKey.OFFSET_FOR_LEADER_EPOCH)[0].body.replica_id == FOLLOWER
    connection.close()


@run_with(follow)
async def test_the_record_before_may_be_of_the_same_epoch(world: FollowerWorld, /) -> None:
    _, _, followed = await tier_led(world, 0, 2, 2, 4)
    connection = await connect(world)
    known = await ask_leader_tiers(connection, FOLLOWER, [followed], skips_tiered=False)
    assert known == {followed: LeaderTierKnown(0, 5, 2)}
    connection.close()


@run_with(follow)
async def test_an_empty_follower_may_begin_where_the_tier_ends(world: FollowerWorld, /) -> None:
    _, _, followed = await tier_led(world, 0, 0, 2, 4)
    connection = await connect(world)
    known = await ask_leader_tiers(connection, FOLLOWER, [followed], skips_tiered=True)
    assert known == {followed: LeaderTierKnown(0, 8, 2)}
    append(followed.partition.log, make_batch(1))
    known = await ask_leader_tiers(connection, FOLLOWER, [followed], skips_tiered=True)
    assert known == {followed: LeaderTierKnown(0, 5, 0)}
    connection.close()


@run_with(follow)
async def test_what_the_leader_does_not_report_is_not_known(world: FollowerWorld, /) -> None:
    leader, _, followed = await tier_led(world, 0, 0, 2, 4)
    leader.errors[-1] = ErrorCode.not_leader_or_follower
    connection = await connect(world)
    assert await ask_leader_tiers(connection, FOLLOWER, [followed], skips_tiered=False) == {}
    connection.close()
