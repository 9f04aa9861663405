"""A transactional producer against brokers in memory: what is committed is there once, what is aborted is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    ProducerFencedError,
    RequestTimeoutError,
    TransactionStateError,
)
from crabka.clients.producer.producer import Producer
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.producer.transaction_messages import GroupMembership, OffsetToCommit
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.coordinators.memory_transactions import MemoryTransactions

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = ProducerSettings(transactional_id="id", batch_bytes=200, linger_ms=1, max_block_ms=5_000)
Test = Callable[[MemoryTransactions, Cluster], Awaitable[None]]
both_versions = pytest.mark.parametrize("version", [1, 2])


def run(test: Test, *, version: int = 2) -> None:
    async def main(simulation: ClientSimulation) -> None:
        simulation.brokers.create_topic("t", 2)
        coordinator = MemoryTransactions(simulation.brokers, version=version)
        async with simulation.connect() as cluster:
            await test(coordinator, cluster)

    simulate(main, node_ids=(1, 2))


async def ready(cluster: Cluster, settings: ProducerSettings = SETTINGS) -> Producer:
    producer = Producer(cluster, settings)
    await producer.init_transactions()
    return producer


async def send(producer: Producer, *values: bytes, partition: int = 0) -> None:
    for value in values:
        await producer.send("t", value, partition=partition)


def numbers(start: int, count: int = 40) -> list[bytes]:
    return [b"%04d" % number for number in range(start, start + count)]


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_transactions_one_after_the_other(coordinator: MemoryTransactions, cluster: Cluster, /) -> None:
    async with await ready(cluster) as producer:
        for start in (0, 40, 80):
            async with producer.transaction():
                await send(producer, *numbers(start))
                await send(producer, b"one", partition=1)
                await producer.send_offsets_to_transaction({T1: start}, "g")
            producer.begin_transaction()
            await send(producer, b"dropped", b"dropped too")
            await producer.flush()
            await producer.abort_transaction()
    assert coordinator.committed_values == {T0: numbers(0, 120), T1: [b"one"] * 3}
    assert coordinator.committed == {"g": {T1: 80}}
    assert coordinator.ends == [True, False] * 3
    batches = [parse_header(batch) for log in coordinator.cluster.topics["t"] for batch in log.batches]
    assert all(header.is_transactional for header in batches)
    assert len({header.producer_id for header in batches}) == 1


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_members_commit_with_their_generation(coordinator: MemoryTransactions, cluster: Cluster, /) -> None:
    async with await ready(cluster) as producer, producer.transaction():
        await producer.send_offsets_to_transaction({T0: OffsetToCommit(3, 1, "x")}, GroupMembership("g", "m", 4))
    (request,) = coordinator.cluster.asked(ApiKey.TXN_OFFSET_COMMIT)
    assert (request.body.generation_id, request.body.member_id) == (4, "m")


@both_versions
@pytest.mark.parametrize(
    "fault", [DisconnectError, ErrorCode.not_leader_or_follower, ErrorCode.concurrent_transactions]
)
@run_with(lambda test, version: run(test, version=version))
async def test_passing_faults_are_not_noticed(
    coordinator: MemoryTransactions, cluster: Cluster, /, fault: ErrorCode | type[DisconnectError]
) -> None:
    coordinator.cluster.fail_next(ApiKey.PRODUCE, fault, None, fault, fault)
    coordinator.cluster.fail_next(ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.unknown_topic_or_partition, DisconnectError)
    coordinator.cluster.lose_answers = 2
    async with await ready(cluster) as producer:
        for start in (0, 40):
            async with producer.transaction():
                await send(producer, *numbers(start))
    assert coordinator.committed_values == {T0: numbers(0, 80)}


@both_versions
@pytest.mark.parametrize(
    "code", [ErrorCode.message_too_large, ErrorCode.unknown_producer_id, ErrorCode.out_of_order_sequence_number]
)
@run_with(lambda test, version: run(test, version=version))
async def test_lost_batch_spoils_the_transaction_and_the_next_one_is_clean(
    coordinator: MemoryTransactions, cluster: Cluster, /, code: ErrorCode
) -> None:
    async with await ready(cluster) as producer:
        producer.begin_transaction()
        coordinator.cluster.fail_next(ApiKey.PRODUCE, None, code)
        deliveries = [await producer.send("t", value, partition=0) for value in numbers(0)]
        with pytest.raises(AbortableTransactionError) as caught:
            await producer.commit_transaction()
        assert caught.value.error_code is code
        assert all(delivery.done() for delivery in deliveries)
        with pytest.raises(AbortableTransactionError):
            await send(producer, b"more")
        await producer.abort_transaction()
        async with producer.transaction():
            await send(producer, *numbers(100))
    assert coordinator.committed_values == {T0: numbers(100)}
    assert producer.buffered_bytes == 0


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_block_that_fails_is_aborted_and_its_error_is_reported(
    coordinator: MemoryTransactions, cluster: Cluster, /
) -> None:
    async def fail(producer: Producer) -> None:
        async with producer.transaction():
            await send(producer, b"x")
            await producer.flush()
            raise ZeroDivisionError

    async def write(producer: Producer) -> None:
        async with producer.transaction():
            await send(producer, b"y")

    async with await ready(cluster) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail(producer)
        coordinator.cluster.fail_next(ApiKey.PRODUCE, ErrorCode.message_too_large)
        with pytest.raises(AbortableTransactionError):
            await write(producer)
        async with producer.transaction():
            await send(producer, b"z")
    assert coordinator.committed_values == {T0: [b"z"]}
    assert coordinator.ends == [False, False, True]


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_abort_drops_what_waits_and_waits_for_what_flies(
    coordinator: MemoryTransactions, cluster: Cluster, /
) -> None:
    async with await ready(cluster, replace(SETTINGS, max_in_flight=1)) as producer:
        producer.begin_transaction()
        deliveries = [await producer.send("t", value, partition=0) for value in numbers(0)]
        await asyncio.sleep(0.002)
        await producer.abort_transaction()
        assert all(delivery.done() for delivery in deliveries)
        assert producer.buffered_bytes == 0
        async with producer.transaction():
            await send(producer, *numbers(100))
    assert coordinator.committed_values == {T0: numbers(100)}


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_batches_that_cannot_be_delivered_in_time_spoil_the_transaction(
    coordinator: MemoryTransactions, cluster: Cluster, /
) -> None:
    settings = replace(SETTINGS, delivery_timeout_ms=3_000)
    async with await ready(cluster, settings) as producer:
        producer.begin_transaction()
        coordinator.cluster.fail_next(ApiKey.PRODUCE, *[ErrorCode.not_enough_replicas] * 1_000)
        delivery = await producer.send("t", b"late", partition=0)
        with pytest.raises(AbortableTransactionError):
            await producer.commit_transaction()
        assert isinstance(delivery.exception(), RequestTimeoutError | OperationError)
        coordinator.cluster.faults.clear()
        await producer.abort_transaction()
        async with producer.transaction():
            await send(producer, b"next")
    assert coordinator.committed_values == {T0: [b"next"]}


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_successor_fences_and_aborts(coordinator: MemoryTransactions, cluster: Cluster, /) -> None:
    async with await ready(cluster) as first, Producer(cluster, SETTINGS) as second:
        first.begin_transaction()
        await send(first, b"first")
        await first.flush()
        await second.init_transactions()
        delivery = await first.send("t", b"zombie", partition=0)
        with pytest.raises(OperationError):
            await delivery
        with pytest.raises(AbortableTransactionError):
            await first.commit_transaction()
        with pytest.raises(ProducerFencedError):
            await first.abort_transaction()
        with pytest.raises(ProducerFencedError):
            first.begin_transaction()
        async with second.transaction():
            await send(second, b"second")
    assert coordinator.committed_values == {T0: [b"second"]}


@run_with(run, version=1)
async def test_refused_partitions_spoil_the_transaction(coordinator: MemoryTransactions, cluster: Cluster, /) -> None:
    async with await ready(cluster) as producer:
        producer.begin_transaction()
        coordinator.cluster.fail_next(ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.topic_authorization_failed)
        delivery = await producer.send("t", b"x", partition=0)
        with pytest.raises(AbortableTransactionError) as caught:
            await delivery
        assert caught.value.error_code is ErrorCode.topic_authorization_failed
        await producer.abort_transaction()
        assert coordinator.ends == []
        coordinator.cluster.fail_next(ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.invalid_txn_state)
        producer.begin_transaction()
        await send(producer, b"y")
        with pytest.raises(FatalTransactionError):
            await producer.commit_transaction()


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_close_aborts_what_was_left_open(coordinator: MemoryTransactions, cluster: Cluster, /) -> None:
    async with await ready(cluster) as producer:
        producer.begin_transaction()
        await send(producer, b"x")
        await producer.flush()
    assert coordinator.ends == [False]
    assert coordinator.committed_values == {}


@run_with(run)
async def test_sends_belong_into_a_transaction(memory_transactions: MemoryTransactions, cluster: Cluster, /) -> None:
    async with await ready(cluster) as producer:
        with pytest.raises(TransactionStateError):
            await send(producer, b"x")
    async with Producer(cluster) as plain:
        with pytest.raises(TransactionStateError, match="transactional_id"):
            plain.begin_transaction()
        await plain.send_and_wait("t", b"x")
