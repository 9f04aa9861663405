"""Who follows whom: fetchers come and go with the partitions that need them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.metadata.cluster import BrokerRegistration, ClusterImage, Endpoint
from crabka.metadata.records import ConfigRecord
from tests.support.async_tests import run_with
from tests.support.nodes.follower import PORT, FollowerWorld, follow
from tests.support.quorum.images import applied
from tests.support.storage.small import append, make_batch


@run_with(follow)
async def test_nothing_runs_after_the_end(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    leader.lead()
    world.place({})
    await world.settle()
    await world.fetchers.close()
    assert (len(world.fetchers), len(world.tasks)) == (0, 0)
    await world.settle(100)
    assert not leader.broker.connections


def registered(world: FollowerWorld, node_id: int, **changes: object) -> BrokerRegistration:
    """Let a broker register anew; return how it was registered."""
    brokers = world.image.cluster.brokers
    changed = replace(brokers[node_id], **changes)  # type: ignore[arg-type]
    cluster = ClusterImage({**brokers, node_id: changed}, world.image.cluster.controllers)
    world.learn(replace(world.image, cluster=cluster))
    return brokers[node_id]


@run_with(follow)
async def test_a_leader_has_one_fetcher_as_long_as_it_is_followed(world: FollowerWorld, /) -> None:
    first, third = await world.add_leader(1), await world.add_leader(3)
    for leader, index in ((first, 0), (first, 1), (third, 2)):
        append(leader.lead(index), make_batch(2), leader_epoch=5)
    world.place({}, {}, {"replicas": (3, 2)})
    await world.settle()
    assert (len(world.fetchers), world.fetchers.followed_count) == (2, 3)
    assert [world.partition(index).log.log_end_offset for index in range(3)] == [2, 2, 2]
    world.learn_leader(2, 6, 2)
    await world.settle()
    assert (len(world.fetchers), world.fetchers.followed_count) == (1, 2)
    assert (len(first.broker.connections), len(third.broker.connections)) == (1, 0)
    world.learn_leader(-1, 6, 0)
    world.learn_leader(-1, 6, 1)
    await world.settle()
    assert (len(world.fetchers), len(first.broker.connections)) == (0, 0)


@run_with(follow)
async def test_a_new_leader_is_followed_instead_of_the_old_one(world: FollowerWorld, /) -> None:
    first, third = await world.add_leader(1), await world.add_leader(3)
    log = first.lead()
    third.logs = dict(first.logs)
    third.leader_epoch = 6
    append(log, make_batch(2), leader_epoch=5)
    world.place({})
    await world.settle()
    world.learn_leader(3, 6)
    append(log, make_batch(2), leader_epoch=6)
    await world.settle()
    assert world.partition().log.log_end_offset == 4
    asked = len(first.fetches)
    await world.settle()
    assert len(first.fetches) == asked
    assert third.fetches


@run_with(follow)
async def test_metadata_that_changes_neither_leader_nor_epoch_changes_nothing(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    leader.lead()
    world.place({})
    await world.settle()
    world.learn_leader(1, 5)
    await world.settle()
    assert leader.broker.connection_count == 1
    assert sum(len(topic.partitions) for each in leader.fetches for topic in each.body.topics) == 1


@run_with(follow, settings={"num.replica.fetchers": "3"})
async def test_partitions_are_spread_over_several_fetchers(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    for index in range(12):
        append(leader.lead(index), make_batch(2), leader_epoch=5)
    world.place(*[{}] * 12)
    await world.settle()
    assert len(world.fetchers) == 3
    assert {each.client_id for each in leader.fetches} == {f"broker-2-fetcher-{number}" for number in range(3)}
    assert all(partition.log.log_end_offset == 2 for partition in world.partitions)


@run_with(follow, settings={"replica.fetch.backoff.ms": "100000"})
async def test_a_leader_is_dialled_as_soon_as_it_registers(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    append(leader.lead(), make_batch(2), leader_epoch=5)
    old = registered(world, 1, endpoints=())
    world.place({})
    await world.settle(10_100)
    assert leader.broker.connection_count == 0
    registered(world, 1, endpoints=old.endpoints, epoch=old.epoch + 1)
    await world.settle(300)
    assert world.partition().log.log_end_offset == 2


@pytest.mark.parametrize("change", ["endpoint", "epoch"])
@run_with(follow, settings={"replica.fetch.backoff.ms": "100000"})
async def test_a_connection_to_what_is_no_more_is_closed(world: FollowerWorld, /, change: str) -> None:
    leader = await world.add_leader()
    leader.lead()
    world.place({})
    await world.settle()
    if change == "epoch":
        old = registered(world, 1, epoch=1000)
        assert old.epoch != 1000
    else:
        await leader.broker.listen(world.network.host("host-1"), "host-1", PORT + 1)
        registered(world, 1, endpoints=(Endpoint("PLAINTEXT", "host-1", PORT + 1, 0),))
    await world.settle(300)
    assert leader.broker.connection_count == 2
    registered(world, 1, rack="elsewhere")
    await world.settle(300)
    assert leader.broker.connection_count == 2


def set_config(world: FollowerWorld, resource_type: int, name: str, key: str, value: str | None) -> None:
    record = ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
    world.learn(applied(world.image, [record]))


RATE = "follower.replication.throttled.rate"
BATCH = make_batch(1, value_bytes=1000)


@pytest.mark.parametrize("replicas", ["*", "0:2"])
@run_with(follow, settings={"replica.fetch.max.bytes": "1100", "replica.fetch.response.max.bytes": "2200"})
async def test_a_throttled_follower_that_lags_takes_no_more_than_its_rate(
    world: FollowerWorld, /, replicas: str
) -> None:
    leader = await world.add_leader()
    log, other = leader.lead(0), leader.lead(1)
    for _ in range(100):
        append(log, BATCH, leader_epoch=5)
        append(other, BATCH, leader_epoch=5)
    set_config(world, 4, "2", RATE, "2000")
    throttled = {"follower_replication_throttled_replicas": replicas}
    world.place({}, {}, **throttled)
    await world.settle(10_000)
    own, free = world.partition(0).log, world.partition(1).log
    if replicas == "*":
        assert 15 <= own.log_end_offset + free.log_end_offset <= 35
    else:
        assert (15 <= own.log_end_offset <= 35, free.log_end_offset) == (True, 100)
    set_config(world, 4, "2", RATE, None)
    await world.settle(5_000)
    assert own.log_end_offset == 100


# Small answers, because a throttle looks before it asks and not at what comes.


@run_with(follow)
async def test_a_throttled_follower_in_sync_is_not_held_back(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    log = leader.lead()
    world.place({}, follower_replication_throttled_replicas="*")
    await world.settle()
    set_config(world, 4, "", RATE, "1")
    for _ in range(10):
        append(log, BATCH, leader_epoch=5)
        await world.settle(600)
    assert world.partition().log.log_end_offset == 10


@run_with(follow)
async def test_a_rate_of_the_broker_counts_before_that_of_all(world: FollowerWorld, /) -> None:
    set_config(world, 4, "", RATE, "5")
    assert world.fetchers._throttle.bytes_per_second == 5
    set_config(world, 4, "2", RATE, "7")
    assert world.fetchers._throttle.bytes_per_second == 7
    set_config(world, 4, "3", RATE, "9")
    assert world.fetchers._throttle.bytes_per_second == 7


@run_with(follow)
async def test_a_partition_that_is_held_is_not_fetched_whatever_the_metadata_says(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    log = leader.lead()
    append(log, make_batch(2), leader_epoch=5)
    world.place({})
    await world.settle()
    partition = world.partition(0)
    world.fetchers.hold(partition)
    append(log, make_batch(2), leader_epoch=5)
    world.learn_leader(1, 6, 0)
    leader.leader_epoch = 6
    await world.settle()
    assert (partition.log.log_end_offset, world.fetchers.followed_count) == (2, 0)
    world.fetchers.release(partition)
    await world.settle()
    assert (partition.log.log_end_offset, world.fetchers.followed_count) == (4, 1)
