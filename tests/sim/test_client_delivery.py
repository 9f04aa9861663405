"""Random faults between clients and brokers: every record arrives exactly once, in order, and is read once."""

from __future__ import annotations

import asyncio
import random

import pytest

from crabka.clients.cluster.cluster import ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.fetcher.fetcher import Fetcher, FetcherSettings, OffsetReset
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.clients.simulation import CLIENT_HOST, ClientSimulation, simulate

NODE_IDS = (1, 2, 3)
PARTITION_COUNT = 4
RECORD_COUNT = 300
FAULTS = (
    None,
    None,
    None,
    DisconnectError,
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.leader_not_available,
    ErrorCode.request_timed_out,
)
SETTINGS = ClusterSettings(ConnectionSettings(request_timeout_ms=3_000, connect_timeout_ms=1_000))


async def disturb(simulation: ClientSimulation, rng: random.Random) -> None:
    """Move leaders, cut and stall connections, lose answers and refuse requests for a while."""
    for _ in range(40):
        await asyncio.sleep(rng.uniform(0, 0.2))
        host = f"broker-{rng.choice(NODE_IDS)}"
        match rng.randrange(5):
            case 0:
                partition = rng.choice(simulation.brokers.topics["t"])
                partition.leader, partition.leader_epoch = rng.choice(NODE_IDS), partition.leader_epoch + 1
            case 1:
                simulation.network.cut(CLIENT_HOST, host)
            case 2:
                simulation.brokers.lose_answers += 1
            case 3:
                api_key = rng.choice((ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA))
                simulation.brokers.fail_next(api_key, *rng.choices(FAULTS, k=3))
            case _:
                simulation.network.partition(CLIENT_HOST, host)
                await asyncio.sleep(rng.uniform(0, 4))
                simulation.network.heal(CLIENT_HOST, host)


async def produce(simulation: ClientSimulation, rng: random.Random) -> None:
    settings = ProducerSettings(batch_bytes=300, linger_ms=2, request_timeout_ms=2_000, delivery_timeout_ms=600_000)
    async with simulation.connect(SETTINGS) as cluster, Producer(cluster, settings) as producer:
        deliveries = []
        for number in range(RECORD_COUNT):
            value, partition = b"%d" % number, number % PARTITION_COUNT
            deliveries.append(await producer.send("t", value, partition=partition))
            if rng.random() < 0.2:
                await asyncio.sleep(rng.uniform(0, 0.1))
        await producer.flush()
        for number, delivery in enumerate(deliveries):
            assert delivery.result().offset == number // PARTITION_COUNT


async def consume(simulation: ClientSimulation) -> None:
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, partition_max_bytes=500, request_timeout_ms=2_000)
    next_offsets = [0] * PARTITION_COUNT
    async with simulation.connect(SETTINGS) as cluster, Fetcher(cluster, settings) as fetcher:
        fetcher.assign([TopicPartition("t", index) for index in range(PARTITION_COUNT)])
        while sum(next_offsets) < RECORD_COUNT:
            for record in await fetcher.poll(5_000, 20):
                assert record.offset == next_offsets[record.partition]
                assert record.value == b"%d" % (record.offset * PARTITION_COUNT + record.partition)
                next_offsets[record.partition] += 1


@pytest.mark.parametrize("seed", range(25))
@run_with(lambda test, seed: simulate(test, node_ids=NODE_IDS, seed=seed))
async def test_every_record_arrives_once_and_in_order(simulation: ClientSimulation, /, seed: int) -> None:
    rng = random.Random(seed)
    simulation.brokers.create_topic("t", PARTITION_COUNT)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(produce(simulation, rng))
        tasks.create_task(consume(simulation))
        tasks.create_task(disturb(simulation, rng))
    for index, partition in enumerate(simulation.brokers.topics["t"]):
        expected = [b"%d" % number for number in range(index, RECORD_COUNT, PARTITION_COUNT)]
        assert [record.value for record in partition.records()] == expected
