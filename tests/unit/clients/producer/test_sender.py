"""The delivery of records, against brokers in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import ClientClosedError, RequestTimeoutError, SaslAuthenticationError
from crabka.clients.producer.accumulator import RecordMetadata
from crabka.clients.producer.partitioner import partition_for_key
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.clients.producer.sender import Sender
from crabka.errors import ConfigError, OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import NO_ANSWER, DisconnectError, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.clusters.memory import MemoryPartition

SMALL_BATCHES = ProducerSettings(batch_bytes=200, linger_ms=1)


def values(partition: MemoryPartition) -> list[bytes | None]:
    return [record.value for record in partition.records()]


async def send_numbers(
    cluster: Cluster, count: int, settings: ProducerSettings = SMALL_BATCHES
) -> list[RecordMetadata]:
    async with Producer(cluster, settings) as producer:
        deliveries = [await producer.send("t", b"%04d" % number, partition=0) for number in range(count)]
    return [delivery.result() for delivery in deliveries]


NUMBERS = [b"%04d" % number for number in range(60)]


@run_with(simulate)
async def test_records_arrive_in_order_with_their_offsets(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        delivered = await send_numbers(cluster, 60)
    assert values(partition) == NUMBERS
    assert [metadata.offset for metadata in delivered] == list(range(60))
    assert len(partition.batches) > 5
    assert len({parse_header(batch).producer_id for batch in partition.batches}) == 1


@pytest.mark.parametrize(
    "fault",
    [
        DisconnectError,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    ],
)
@pytest.mark.parametrize("pattern", [(1,), (0, 1), (1, 1, 0, 1), (0, 0, 1, 0, 1)])
@run_with(simulate)
async def test_retriable_failures_neither_lose_nor_repeat_nor_reorder(
    simulation: ClientSimulation, /, fault: ErrorCode | type[DisconnectError], pattern: tuple[int, ...]
) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(ApiKey.PRODUCE, *(fault if fails else None for fails in pattern))
    async with simulation.connect() as cluster:
        delivered = await send_numbers(cluster, 60)
    assert values(partition) == NUMBERS
    assert [metadata.offset for metadata in delivered] == list(range(60))


@pytest.mark.parametrize("lost", [1, 3])
@run_with(simulate)
async def test_lost_answers_do_not_write_twice(simulation: ClientSimulation, /, lost: int) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    simulation.brokers.lose_answers = lost
    async with simulation.connect() as cluster:
        delivered = await send_numbers(cluster, 60)
    assert values(partition) == NUMBERS
    assert [metadata.offset for metadata in delivered] == list(range(60))


@run_with(simulate)
async def test_batch_that_fails_for_good_does_not_stop_the_others(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(ApiKey.PRODUCE, ErrorCode.message_too_large)
    async with simulation.connect() as cluster, Producer(cluster, SMALL_BATCHES) as producer:
        deliveries = [await producer.send("t", value, partition=0) for value in NUMBERS]
        await producer.flush()
    failed = [delivery for delivery in deliveries if delivery.exception()]
    arrived = [delivery.result().offset for delivery in deliveries if not delivery.exception()]
    assert 0 < len(failed) < 60
    assert arrived == list(range(60 - len(failed)))
    assert values(partition) == NUMBERS[len(failed) :]
    assert len({parse_header(batch).producer_id for batch in partition.batches}) == 1


@run_with(simulate)
async def test_forgotten_producer_gets_a_new_identity_and_loses_nothing(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(ApiKey.PRODUCE, ErrorCode.unknown_producer_id)
    async with simulation.connect() as cluster:
        await send_numbers(cluster, 5)
    assert values(partition) == NUMBERS[:5]
    assert len(simulation.brokers.asked(ApiKey.INIT_PRODUCER_ID)) == 2


@run_with(simulate, node_ids=(1, 2))
async def test_moved_leader_is_followed(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Producer(cluster, SMALL_BATCHES) as producer:
        await producer.send_and_wait("t", b"before")
        partition.leader = 2
        assert (await producer.send_and_wait("t", b"after")).offset == 1
    assert values(partition) == [b"before", b"after"]


@run_with(simulate, node_ids=(1, 2))
async def test_nothing_overtakes_a_batch_that_is_under_way_to_an_older_leader(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    simulation.brokers.brokers[1].answers[ApiKey.PRODUCE] = lambda _: NO_ANSWER
    settings = ProducerSettings(batch_bytes=200, linger_ms=1, request_timeout_ms=1_000)
    async with simulation.connect() as cluster, Producer(cluster, settings) as producer:
        await producer.send("t", b"first")
        await asyncio.sleep(0.1)
        partition.leader = 2
        async with simulation.connect() as other:
            cluster.view = await other.refresh(["t"])
        await producer.send("t", b"second")
        await producer.flush()
    assert values(partition) == [b"first", b"second"]
    # No broker was asked to take the second one before the first.
    assert len(simulation.brokers.asked(ApiKey.PRODUCE)) == 3


@run_with(simulate)
async def test_crashed_broker_is_waited_for_until_the_delivery_time_is_over(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    settings = ProducerSettings(delivery_timeout_ms=3_000)
    async with simulation.connect() as cluster, Producer(cluster, settings) as producer:
        await producer.send_and_wait("t", b"before")
        simulation.brokers.close()
        delivery = await producer.send("t", b"after")
        with pytest.raises(RequestTimeoutError):
            await delivery
        await producer.flush()


def test_sending_survives_a_restart_of_the_only_broker() -> None:
    async def test(simulation: ClientSimulation) -> None:
        (partition,) = simulation.brokers.create_topic("t")
        async with simulation.connect() as cluster, Producer(cluster, SMALL_BATCHES) as producer:
            await producer.send_and_wait("t", b"before")
            simulation.brokers.close()
            sending = asyncio.ensure_future(send_all(producer))
            await asyncio.sleep(5)
            assert not sending.done()
            await simulation.brokers.brokers[1].listen(
                simulation.network.host("broker-1"), *simulation.brokers.addresses[1]
            )
            await sending
        assert values(partition) == [b"before", *NUMBERS]

    async def send_all(producer: Producer) -> None:
        for value in NUMBERS:
            await producer.send("t", value)
            await asyncio.sleep(0.01)
        await producer.flush()

    simulate(test)


@run_with(simulate)
async def test_silent_broker_is_given_up_after_the_request_timeout(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    simulation.brokers.brokers[1].answers[ApiKey.PRODUCE] = lambda _: NO_ANSWER
    settings = ProducerSettings(request_timeout_ms=1_000, delivery_timeout_ms=10_000)
    async with simulation.connect() as cluster, Producer(cluster, settings) as producer:
        delivery = await producer.send("t", b"x")
        with pytest.raises(RequestTimeoutError):
            await delivery
        assert len(simulation.brokers.asked(ApiKey.PRODUCE)) == 2


@run_with(simulate)
async def test_keys_choose_partitions_and_records_without_key_fill_one_batch(simulation: ClientSimulation, /) -> None:
    partitions = simulation.brokers.create_topic("t", 4)
    async with simulation.connect() as cluster, Producer(cluster) as producer:
        for number in range(40):
            await producer.send("t", b"v", b"key-%d" % number)
        await producer.flush()
        for index, partition in enumerate(partitions):
            assert {partition_for_key(record.key or b"", 4) for record in partition.records()} <= {index}
        sizes = [len(partition.batches) for partition in partitions]
        for _ in range(10):
            await producer.send("t", b"v")
        await producer.flush()
        assert sum(len(partition.batches) for partition in partitions) == sum(sizes) + 1


@run_with(simulate, node_ids=(1, 2))
async def test_partitions_of_one_leader_share_a_request(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t", 4)
    async with simulation.connect() as cluster, Producer(cluster) as producer:
        for index in range(4):
            await producer.send("t", b"v", partition=index)
        await producer.flush()
    assert len(simulation.brokers.asked(ApiKey.PRODUCE)) == 2


@run_with(simulate)
async def test_request_is_limited_in_size(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t", 3)
    settings = ProducerSettings(batch_bytes=700, max_request_bytes=1_500)
    async with simulation.connect() as cluster, Producer(cluster, settings) as producer:
        for index in range(3):
            await producer.send("t", bytes(600), partition=index)
        await producer.flush()
    sizes = [
        sum(len(data.records) for topic in request.body.topic_data for data in topic.partition_data)
        for request in simulation.brokers.asked(ApiKey.PRODUCE)
    ]
    assert len(sizes) == 2
    assert max(sizes) <= 1_500


@run_with(simulate)
async def test_partition_the_broker_left_out_of_its_answer_is_tried_again(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    broker = simulation.brokers.brokers[1]
    answer = broker.answers[ApiKey.PRODUCE]

    def forget_once(request: ReceivedRequest) -> Any:
        broker.answers[ApiKey.PRODUCE] = answer
        return request.types.message(responses=[], throttle_time=0)

    broker.answers[ApiKey.PRODUCE] = forget_once
    async with simulation.connect() as cluster:
        await send_numbers(cluster, 3)
    assert values(partition) == NUMBERS[:3]


@run_with(simulate)
async def test_lost_connection_while_asking_for_an_identity_is_survived(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(ApiKey.INIT_PRODUCER_ID, DisconnectError)
    async with simulation.connect() as cluster:
        await send_numbers(cluster, 3)
    assert values(partition) == NUMBERS[:3]


@run_with(simulate)
async def test_linger_gathers_records(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Producer(cluster, ProducerSettings(linger_ms=1_000)) as producer:
        await producer.send("t", b"a")
        await asyncio.sleep(0.5)
        delivery = await producer.send("t", b"b")
        assert not partition.batches
        await delivery
    assert [parse_header(batch).records_count for batch in partition.batches] == [2]


@run_with(simulate)
async def test_full_buffer_holds_the_sender_back(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    settings = ProducerSettings(buffer_bytes=2_000, batch_bytes=500)
    peak = 0
    async with simulation.connect() as cluster, Producer(cluster, settings) as producer:
        for _ in range(100):
            await producer.send("t", bytes(100))
            peak = max(peak, producer.buffered_bytes)
    assert peak <= 2_000
    assert len(partition.records()) == 100


@pytest.mark.parametrize("codec", range(5))
@run_with(simulate)
async def test_every_codec_arrives(simulation: ClientSimulation, /, codec: int) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        await send_numbers(cluster, 60, ProducerSettings(codec=codec))
    assert values(partition) == NUMBERS
    assert {parse_header(batch).codec for batch in partition.batches} == {codec}


@run_with(simulate)
async def test_without_idempotence_batches_are_anonymous(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        await send_numbers(cluster, 3, ProducerSettings(idempotent=False, acks=1))
    assert parse_header(partition.batches[0]).producer_id == -1
    assert not simulation.brokers.asked(ApiKey.INIT_PRODUCER_ID)


@run_with(simulate)
async def test_acks_0_does_not_wait_for_an_answer(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    broker = simulation.brokers.brokers[1]
    answer = broker.answers[ApiKey.PRODUCE]
    broker.answers[ApiKey.PRODUCE] = lambda request: (answer(request), NO_ANSWER)[1]
    async with simulation.connect() as cluster:
        delivered = await send_numbers(cluster, 3, ProducerSettings(idempotent=False, acks=0))
        assert [metadata.offset for metadata in delivered] == [-1, -1, -1]
        await cluster.refresh(())
    assert values(partition) == NUMBERS[:3]


@run_with(simulate)
async def test_refused_producer_id_fails_every_record(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(
        ApiKey.INIT_PRODUCER_ID, ErrorCode.coordinator_load_in_progress, ErrorCode.cluster_authorization_failed
    )
    async with simulation.connect() as cluster, Producer(cluster) as producer:
        delivery = await producer.send("t", b"x")
        with pytest.raises(OperationError) as caught:
            await delivery
        assert caught.value.error_code is ErrorCode.cluster_authorization_failed
        with pytest.raises(OperationError):
            await producer.send("t", b"y")


@run_with(simulate)
async def test_refused_user_cannot_send(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect(simulation.refusing_user()) as cluster, Producer(cluster) as producer:
        with pytest.raises(SaslAuthenticationError):
            await producer.send("t", b"x")


@pytest.mark.parametrize("idempotent", [True, False])
@run_with(simulate)
async def test_user_who_is_refused_later_loses_what_waits_at_once(
    simulation: ClientSimulation, /, idempotent: bool
) -> None:
    simulation.brokers.create_topic("t")
    settings = ProducerSettings(idempotent=idempotent)
    async with simulation.connect() as cluster, Producer(cluster, settings) as producer:
        await cluster.topic("t")
        cluster.settings = simulation.refusing_user()
        for broker in simulation.brokers.brokers.values():
            broker.cut_connections()
        started = simulation.loop.time()
        delivery = await producer.send("t", b"x")
        with pytest.raises(SaslAuthenticationError):
            await delivery
        assert simulation.loop.time() - started < 1


@run_with(simulate)
async def test_user_who_is_refused_while_leaders_are_looked_up_loses_what_waits_at_once(
    simulation: ClientSimulation, /
) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Producer(cluster, ProducerSettings(linger_ms=500)) as producer:
        delivery = await producer.send("t", b"x")
        cluster.settings = simulation.refusing_user()
        for broker in simulation.brokers.brokers.values():
            broker.cut_connections()
        cluster.invalidate("t")
        started = simulation.loop.time()
        with pytest.raises(SaslAuthenticationError):
            await delivery
        assert simulation.loop.time() - started < 1


@pytest.mark.parametrize("broken", ["_request", "_leader_of", "_allocate_identity"])
@run_with(simulate)
async def test_an_unforeseen_failure_fails_what_waits_and_what_comes(
    simulation: ClientSimulation, /, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any) -> Any:
        raise KeyError("a bug")

    async def fail_later(*_arguments: Any) -> Any:
        fail()

    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        producer = Producer(cluster)
        monkeypatch.setattr(Sender, broken, fail if broken == "_leader_of" else fail_later)
        delivery = await producer.send("t", b"x")
        await producer.flush()
        with pytest.raises(KeyError, match="a bug"):
            await delivery
        with pytest.raises(KeyError, match="a bug"):
            await producer.send("t", b"y")
        await producer.close()


@run_with(simulate)
async def test_impossible_records_are_refused_at_once(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Producer(cluster) as producer:
        with pytest.raises(OperationError) as caught:
            await producer.send("t", bytes(2_000_000))
        assert caught.value.error_code is ErrorCode.message_too_large


@pytest.mark.parametrize(("topic", "partition"), [("new", None), ("new", 0), ("t", 8)])
@run_with(simulate)
async def test_a_topic_or_partition_that_is_unknown_is_waited_for(
    simulation: ClientSimulation, /, topic: str, partition: int | None
) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Producer(cluster, ProducerSettings(max_block_ms=3_000)) as producer:
        with pytest.raises(OperationError) as caught:
            await producer.send(topic, b"x", partition=partition)
        assert caught.value.error_code is ErrorCode.unknown_topic_or_partition
        assert 1.5 < simulation.loop.time() <= 3.1
        waiting = asyncio.ensure_future(producer.send(topic, b"x", partition=partition))
        await asyncio.sleep(1)
        simulation.brokers.create_topic(topic, 9)
        assert (await (await waiting)).offset == 0


@run_with(simulate)
async def test_close_without_flush_fails_what_waits_and_refuses_more(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        producer = Producer(cluster, ProducerSettings(linger_ms=60_000))
        delivery = await producer.send("t", b"x")
        await producer.close(flush=False)
        await producer.close()
        assert isinstance(delivery.exception(), ClientClosedError)
        with pytest.raises(ClientClosedError):
            await producer.send("t", b"y")


@run_with(simulate)
async def test_flush_waits_only_for_what_was_sent_before(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Producer(cluster) as producer:

        async def keep_sending() -> None:
            while True:
                await producer.send("t", b"more")
                await asyncio.sleep(0.001)

        delivery = await producer.send("t", b"first")
        sending = asyncio.ensure_future(keep_sending())
        await asyncio.wait_for(producer.flush(), 10)
        assert delivery.done()
        sending.cancel()


@run_with(simulate)
async def test_close_ends_a_flush_that_waits(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    simulation.brokers.brokers[1].answers[ApiKey.PRODUCE] = lambda _: NO_ANSWER
    async with simulation.connect() as cluster:
        producer = Producer(cluster)
        delivery = await producer.send("t", b"x")
        flushing = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0.1)
        await producer.close(flush=False)
        await asyncio.wait_for(flushing, 10)
        assert isinstance(delivery.exception(), ClientClosedError)


def test_idempotent_producer_refuses_settings_that_break_it() -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(acks=1)
    with pytest.raises(ConfigError):
        ProducerSettings(max_in_flight=6)
