from __future__ import annotations

from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_state import LeaderRangeKnown
from crabka.broker.replication.leader_range import ask_leader_ranges
from crabka.clients.connection import Connection
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.following import FOLLOWER, PORT, FollowerWorld, ToyLeader, follow
from tests.support.logs import append, make_batch


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


def test_the_range_of_many_partitions_takes_two_requests() -> None:
    async def test(world: FollowerWorld) -> None:
        leader, followed = await led(world)
        leader.logs[world.partition().topic_id, 2].delete_records_before(4)
        connection = await connect(world)
        ranges = await ask_leader_ranges(connection, FOLLOWER, followed)
        assert list(ranges.values()) == [LeaderRangeKnown(0, 0), LeaderRangeKnown(0, 3), LeaderRangeKnown(4, 6)]
        requests = leader.broker.asked(ApiKey.LIST_OFFSETS)
        assert [request.body.topics[0].partitions[0].timestamp for request in requests] == [-1, -2]
        assert all(request.body.replica_id == FOLLOWER for request in requests)
        assert requests[0].body.topics[0].partitions[1].current_leader_epoch == 5
        connection.close()

    follow(test)


def test_a_partition_with_an_error_is_left_out() -> None:
    async def test(world: FollowerWorld) -> None:
        leader, followed = await led(world)
        connection = await connect(world)
        leader.errors[-1] = ErrorCode.fenced_leader_epoch
        assert await ask_leader_ranges(connection, FOLLOWER, followed) == {}
        connection.close()

    follow(test)
