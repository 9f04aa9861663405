"""Random faults under transactional producers: what is committed is there once and in order, what is aborted is not.

Each number goes to one partition together with the progress of a group. A producer that dies is replaced by one that
goes on where the committed progress says, as a copying job does.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from crabka.clients.cluster.cluster import ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.errors import (
    AbortableTransactionError,
    ClientNetworkError,
    FatalTransactionError,
    TransactionStateError,
)
from crabka.clients.producer.producer import Producer
from crabka.clients.producer.settings import ProducerSettings
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.clients.simulation import CLIENT_HOST, ClientSimulation, simulate
from tests.support.coordinators.memory_transactions import MemoryTransactions

NODE_IDS = (1, 2, 3)
PARTITION_COUNT = 3
RECORD_COUNT = 200
PROGRESS = TopicPartition("t", 0)
OF_LEADERS = (None, DisconnectError, ErrorCode.not_leader_or_follower, ErrorCode.message_too_large)
OF_COORDINATORS = (
    None,
    DisconnectError,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.concurrent_transactions,
    ErrorCode.transaction_abortable,
)
COORDINATOR_APIS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
CLUSTER = ClusterSettings(ConnectionSettings(request_timeout_ms=2_000, connect_timeout_ms=1_000))
PRODUCER = ProducerSettings(
    transactional_id="copier",
    batch_bytes=200,
    linger_ms=1,
    request_timeout_ms=2_000,
    delivery_timeout_ms=8_000,
    max_block_ms=6_000,
)


async def disturb(simulation: ClientSimulation, coordinator: MemoryTransactions, rng: random.Random) -> None:
    for _ in range(60):
        await asyncio.sleep(rng.uniform(0, 0.3))
        host = f"broker-{rng.choice(NODE_IDS)}"
        match rng.randrange(8):
            case 0:
                partition = rng.choice(simulation.brokers.topics["t"])
                partition.leader, partition.leader_epoch = rng.choice(NODE_IDS), partition.leader_epoch + 1
            case 1:
                simulation.network.cut(CLIENT_HOST, host)
            case 2:
                simulation.brokers.lose_answers += 1
            case 3:
                simulation.brokers.fail_next(ApiKey.PRODUCE, *rng.choices(OF_LEADERS, k=3))
            case 4:
                simulation.brokers.fail_next(rng.choice(COORDINATOR_APIS), *rng.choices(OF_COORDINATORS, k=3))
            case 5:
                coordinator.lose_answers[rng.choice(COORDINATOR_APIS)] = 1
            case 6:
                coordinator.node_id = rng.choice(NODE_IDS)
            case _:
                simulation.network.partition(CLIENT_HOST, host)
                await asyncio.sleep(rng.uniform(0, 4))
                simulation.network.heal(CLIENT_HOST, host)


def progress(coordinator: MemoryTransactions) -> int:
    return coordinator.committed.get("copier", {}).get(PROGRESS, 0)


async def copy_some(producer: Producer, coordinator: MemoryTransactions, rng: random.Random) -> None:
    start = progress(coordinator)
    end = min(start + rng.randrange(1, 30), RECORD_COUNT)
    producer.begin_transaction()
    for number in range(start, end):
        await producer.send("t", b"%d" % number, partition=number % PARTITION_COUNT)
    await producer.send_offsets_to_transaction({PROGRESS: end}, "copier")
    if rng.random() < 0.2:
        await producer.abort_transaction()
    else:
        await insist(producer, commit=True)


async def insist(producer: Producer, *, commit: bool) -> None:
    """Commit or abort; retry until there is an answer."""
    while True:
        try:
            return await (producer.commit_transaction() if commit else producer.abort_transaction())
        except ClientNetworkError:
            await asyncio.sleep(0.5)


async def live(simulation: ClientSimulation, coordinator: MemoryTransactions, rng: random.Random) -> None:
    """Be one producer until all is copied, the producer is of no use, or it is killed."""
    async with simulation.connect(CLUSTER) as cluster, Producer(cluster, PRODUCER) as producer:
        await producer.init_transactions()
        while progress(coordinator) < RECORD_COUNT:
            try:
                await copy_some(producer, coordinator, rng)
            except AbortableTransactionError:
                await insist(producer, commit=False)


async def copy_all(simulation: ClientSimulation, coordinator: MemoryTransactions, rng: random.Random) -> int:
    lives = 0
    while progress(coordinator) < RECORD_COUNT:
        lives += 1
        try:
            async with asyncio.timeout(rng.uniform(0.5, 30)):
                await live(simulation, coordinator, rng)
        except (TimeoutError, ClientNetworkError, FatalTransactionError, AbortableTransactionError):
            continue
        except TransactionStateError as error:
            raise AssertionError(str(error)) from error
    return lives


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(20))
@run_with(lambda test, seed: simulate(test, node_ids=NODE_IDS, seed=seed))
async def test_copies_are_exact_whatever_happens(simulation: ClientSimulation, /, seed: int, version: int) -> None:
    rng = random.Random(seed)
    simulation.brokers.create_topic("t", PARTITION_COUNT)
    coordinator = MemoryTransactions(simulation.brokers, version=version)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(copy_all(simulation, coordinator, rng))
        tasks.create_task(disturb(simulation, coordinator, rng))
    for index in range(PARTITION_COUNT):
        expected = [b"%d" % number for number in range(index, RECORD_COUNT, PARTITION_COUNT)]
        assert coordinator.committed_values[TopicPartition("t", index)] == expected
