"""Clusters: bootstrap, metadata cache, leaders, fail-over between brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.clients.cluster.cluster import MAX_SESSIONS, ClusterSettings, means_stale_metadata, parse_bootstrap
from crabka.clients.errors import ClientClosedError, ClientNetworkError, SaslAuthenticationError, SessionEndedError
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import NO_ANSWER, DisconnectError, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation, simulate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [("a", 1)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:5", [("::1", 5)]),
        ("[::1]", [("::1", 9092)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
    ],
)
def test_bootstrap_texts(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == expected


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:70000", ":9"])
def test_bad_bootstrap_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_bootstrap(text)


@run_with(simulate)
async def test_metadata_is_cached_until_it_is_too_old(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect(ClusterSettings(metadata_max_age_ms=1_000)) as cluster:
        for _ in range(3):
            await cluster.topic("t")
        assert len(simulation.brokers.asked(ApiKey.METADATA)) == 1
        await asyncio.sleep(2)
        await cluster.topic("t")
        assert len(simulation.brokers.asked(ApiKey.METADATA)) == 2


@run_with(simulate, node_ids=(1, 2))
async def test_invalidated_topic_is_looked_up_again(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        assert (await cluster.partition(TopicPartition("t", 0))).leader == 1
        partition.leader, partition.leader_epoch = 2, 5
        assert (await cluster.partition(TopicPartition("t", 0))).leader == 1
        cluster.invalidate("t")
        found = await cluster.partition(TopicPartition("t", 0))
        assert (found.leader, found.leader_epoch) == (2, 5)


@run_with(simulate)
async def test_unknown_topic_and_partition_are_reported_with_kafkas_code(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        for wanted in (TopicPartition("nope", 0), TopicPartition("t", 7)):
            with pytest.raises(OperationError) as caught:
                await cluster.partition(wanted)
            assert caught.value.error_code is ErrorCode.unknown_topic_or_partition


@run_with(simulate)
async def test_partition_without_leader_is_reported(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    partition.leader = -1
    async with simulation.connect() as cluster:
        with pytest.raises(OperationError) as caught:
            await cluster.partition(TopicPartition("t", 0))
        assert caught.value.error_code is ErrorCode.leader_not_available


@pytest.mark.parametrize("on_demand", [False, True])
@run_with(simulate)
async def test_topic_that_a_broker_does_not_know_yet_is_waited_for(
    simulation: ClientSimulation, /, on_demand: bool
) -> None:
    async with simulation.connect(ClusterSettings(allow_auto_topic_creation=on_demand)) as cluster:
        waiting = asyncio.ensure_future(cluster.topic("late"))
        await asyncio.sleep(1)
        simulation.brokers.create_topic("late", 3)
        assert len((await waiting).partitions) == 3


@run_with(simulate)
async def test_partition_that_a_broker_does_not_know_yet_is_waited_for(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t", 1)
    async with simulation.connect() as cluster:
        await cluster.topic("t")
        waiting = asyncio.ensure_future(cluster.partition(TopicPartition("t", 1)))
        await asyncio.sleep(1)
        simulation.brokers.create_topic("t", 2)
        assert (await waiting).partition == 1


@run_with(simulate)
async def test_unknown_topic_is_asked_for_until_the_time_is_over(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster:
        for timeout_ms in (0, 5_000):
            started_s = simulation.loop.time()
            asked = len(simulation.brokers.asked(ApiKey.METADATA))
            with pytest.raises(OperationError) as caught:
                await cluster.topic("nope", timeout_ms=timeout_ms)
            assert caught.value.error_code is ErrorCode.unknown_topic_or_partition
            took_s = simulation.loop.time() - started_s
            assert timeout_ms * 0.6 <= took_s * 1000 <= timeout_ms + 100
            is_once = len(simulation.brokers.asked(ApiKey.METADATA)) - asked == 1
            assert is_once == (timeout_ms == 0)


@run_with(simulate)
async def test_topic_lookup_waits_for_a_broker_until_its_time_is_over(simulation: ClientSimulation, /) -> None:
    simulation.brokers.close()
    async with simulation.connect(ClusterSettings(metadata_timeout_ms=5_000)) as cluster:
        started_s = simulation.loop.time()
        with pytest.raises(ClientNetworkError):
            await cluster.topic("t")
        assert 3 < simulation.loop.time() - started_s <= 5


@run_with(simulate, node_ids=(1, 2))
async def test_refused_user_is_reported_at_once_and_tried_at_one_broker_only(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect(simulation.refusing_user()) as cluster:
        with pytest.raises(SaslAuthenticationError):
            await cluster.topic("t")
        assert simulation.loop.time() < 1
        assert sum(broker.connection_count for broker in simulation.brokers.brokers.values()) == 1
        with pytest.raises(SaslAuthenticationError):
            await cluster.any_connection()


@pytest.mark.parametrize("late_count", [1, MAX_SESSIONS])
@run_with(simulate)
async def test_a_session_that_ended_is_followed_by_a_new_one(simulation: ClientSimulation, /, late_count: int) -> None:
    simulation.brokers.create_topic("t")
    broker = simulation.brokers.brokers[1]
    settings = simulation.brief_sessions(1_000)
    metadata, late = broker.answers[ApiKey.METADATA], [True] * late_count

    def answer(request: ReceivedRequest) -> Any:
        if late:
            # As if the request had been under way until its session was over.
            late.pop()
            simulation.loop.call_later(1, broker.cut_connections)
            return NO_ANSWER
        return metadata(request)

    broker.answers[ApiKey.METADATA] = answer
    async with simulation.connect(settings) as cluster:
        if late_count < MAX_SESSIONS:
            assert set((await cluster.refresh(None)).topics) == {"t"}
        else:
            with pytest.raises(SessionEndedError):
                await cluster.refresh(None)
        assert broker.connection_count == min(late_count + 1, MAX_SESSIONS)


@run_with(simulate, node_ids=(1, 2))
async def test_next_broker_is_asked_when_one_is_gone(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    simulation.brokers.brokers[1].close()
    simulation.brokers.fail_next(ApiKey.METADATA, DisconnectError)
    async with simulation.connect() as cluster:
        with pytest.raises(ClientNetworkError):
            await cluster.refresh(None)
        assert set((await cluster.refresh(None)).topics) == {"t"}


@run_with(simulate, node_ids=(1, 2))
async def test_any_connection_tries_brokers_until_one_answers(simulation: ClientSimulation, /) -> None:
    simulation.brokers.brokers[1].close()
    async with simulation.connect() as cluster:
        connection = await cluster.any_connection()
        assert await cluster.any_connection() is connection
        simulation.brokers.close()
        await connection.wait_closed()
        with pytest.raises(ClientNetworkError):
            await cluster.any_connection()


@run_with(simulate)
async def test_concurrent_calls_share_one_connection_and_channels_do_not(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster:
        await cluster.refresh(())
        first, second = await asyncio.gather(cluster.connection(1), cluster.connection(1))
        assert first is second
        assert await cluster.connection(1, "fetch") is not first
        assert simulation.brokers.brokers[1].connection_count == 2


@run_with(simulate)
async def test_lost_connection_is_replaced(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster:
        await cluster.refresh(())
        first = await cluster.connection(1)
        simulation.brokers.brokers[1].cut_connections()
        await first.wait_closed()
        assert (await cluster.connection(1)).is_open


@run_with(simulate)
async def test_unknown_broker_and_closed_cluster_are_errors(simulation: ClientSimulation, /) -> None:
    cluster = simulation.connect()
    with pytest.raises(ClientNetworkError, match="broker 42"):
        await cluster.connection(42)
    await cluster.close()
    with pytest.raises(ClientClosedError):
        await cluster.connection(1)


def test_stale_metadata_codes() -> None:
    assert means_stale_metadata(ErrorCode.not_leader_or_follower)
    assert not means_stale_metadata(ErrorCode.message_too_large)
