"""Requests to leaders: grouping, and retries where the leader moved."""

from __future__ import annotations

import asyncio

import pytest

from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.leader_requests import Answers, ask_leaders, by_topic, error_or
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate

PARTITIONS = [TopicPartition("t", index) for index in range(4)]


@run_with(simulate, node_ids=(1, 2))
async def test_partitions_are_grouped_by_leader_and_answers_joined(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t", 4)
    groups: list[list[TopicPartition]] = []

    async def ask(_: Connection, partitions: list[TopicPartition]) -> Answers[int]:
        groups.append(partitions)
        return {partition: partition.partition * 10 for partition in partitions}

    async with simulation.connect() as cluster:
        answers = await ask_leaders(cluster, PARTITIONS, ask)
    assert answers == {partition: partition.partition * 10 for partition in PARTITIONS}
    assert sorted(groups) == [[PARTITIONS[0], PARTITIONS[2]], [PARTITIONS[1], PARTITIONS[3]]]


@run_with(simulate)
async def test_only_open_partitions_are_asked_again(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t", 2)
    asked: list[list[TopicPartition]] = []

    async def ask(_: Connection, partitions: list[TopicPartition]) -> Answers[int]:
        asked.append(partitions)
        if len(asked) == 2:
            raise ClientNetworkError("lost")
        moved = OperationError(ErrorCode.not_leader_or_follower)
        return {partition: moved if partition.partition and len(asked) < 3 else 1 for partition in partitions}

    async with simulation.connect() as cluster:
        await ask_leaders(cluster, PARTITIONS[:2], ask)
    assert asked == [PARTITIONS[:2], PARTITIONS[1:2], PARTITIONS[1:2]]


@pytest.mark.parametrize("code", [ErrorCode.not_leader_or_follower, ErrorCode.topic_authorization_failed])
@run_with(simulate)
async def test_lasting_error_is_raised(simulation: ClientSimulation, /, code: ErrorCode) -> None:
    simulation.brokers.create_topic("t")

    async def ask(_: Connection, partitions: list[TopicPartition]) -> Answers[int]:
        return {partition: OperationError(code) for partition in partitions}

    async with simulation.connect() as cluster:
        with pytest.raises(OperationError) as caught:
            await ask_leaders(cluster, PARTITIONS[:1], ask, timeout_ms=3_000)
    assert caught.value.error_code is code


@run_with(simulate)
async def test_partition_left_out_of_the_answer_is_an_error_in_the_end(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")

    async def ask(_connection: Connection, _partitions: list[TopicPartition]) -> Answers[int]:
        return {}

    async with simulation.connect() as cluster:
        with pytest.raises(ClientNetworkError, match="left partitions out"):
            await ask_leaders(cluster, PARTITIONS[:1], ask, timeout_ms=1_000)


@run_with(simulate)
async def test_missing_leader_is_waited_for(simulation: ClientSimulation, /) -> None:
    first, second = simulation.brokers.create_topic("t", 2)
    second.leader = -1

    async def ask(_: Connection, partitions: list[TopicPartition]) -> Answers[int]:
        second.leader = first.leader
        return dict.fromkeys(partitions, 1)

    async with simulation.connect() as cluster:
        assert set(await ask_leaders(cluster, PARTITIONS[:2], ask)) == set(PARTITIONS[:2])


@run_with(simulate)
async def test_partition_that_does_not_exist_is_an_error_at_once(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")

    async def ask(_: Connection, partitions: list[TopicPartition]) -> Answers[int]:
        return dict.fromkeys(partitions, 1)

    async with simulation.connect() as cluster:
        with pytest.raises(OperationError, match="t-3"):
            await ask_leaders(cluster, [PARTITIONS[3]], ask)


def test_small_tools() -> None:
    assert by_topic([TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0)]) == {"a": [1, 0], "b": [0]}
    assert error_or(ErrorCode.none, "", 5) == 5
    assert isinstance(error_or(ErrorCode.invalid_config, "m", 5), OperationError)


@run_with(simulate)
async def test_new_partitions_are_waited_for_until_the_time_is_over(simulation: ClientSimulation, /) -> None:
    async def ask(_: Connection, partitions: list[TopicPartition]) -> Answers[int]:
        return dict.fromkeys(partitions, 1)

    async with simulation.connect() as cluster:
        with pytest.raises(OperationError) as caught:
            await ask_leaders(cluster, PARTITIONS[:1], ask, timeout_ms=2_000)
        assert caught.value.error_code is ErrorCode.unknown_topic_or_partition
        assert 1 < simulation.loop.time() <= 2.1
        waiting = asyncio.ensure_future(ask_leaders(cluster, PARTITIONS[:2], ask))
        await asyncio.sleep(1)
        simulation.brokers.create_topic("t", 2)
        assert await waiting == dict.fromkeys(PARTITIONS[:2], 1)
