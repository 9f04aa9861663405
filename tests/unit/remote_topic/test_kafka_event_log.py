"""The metadata topic over Kafka clients: making it, publishing, reading back, its ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from crabka.clients.errors import ClientNetworkError
from crabka.errors import InvariantError, OperationError
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from crabka.remote_topic.kafka_event_log import (
    END_OFFSETS_TIMEOUT_MS,
    KafkaMetadataEventLog,
    KafkaMetadataEventLogConfig,
)
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import NO_ANSWER, DisconnectError
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.tier_topic.manager import until
from tests.support.tier_topic.topic import RecordedEvents, append_values, metadata_partitions, serve_create_topics


def config_for(simulation: ClientSimulation, **topic: Any) -> KafkaMetadataEventLogConfig:
    settings = RemoteTopicSettings(consume_wait_ms=20_000, **topic)
    return KafkaMetadataEventLogConfig(bootstrap=simulation.bootstrap, node_id=5, topic=settings)


@asynccontextmanager
async def opened(
    simulation: ClientSimulation, **topic: int
) -> AsyncIterator[tuple[KafkaMetadataEventLog, RecordedEvents]]:
    log = await KafkaMetadataEventLog.open(simulation.runtime, config_for(simulation, **topic))
    sink = RecordedEvents()
    log.start(sink)
    try:
        yield log, sink
    finally:
        await log.close()
        await log.close()


@run_with(simulate, node_ids=(1, 2))
async def test_the_topic_is_made_if_it_is_not_there(simulation: ClientSimulation, /) -> None:
    asked = serve_create_topics(simulation.brokers)
    async with opened(simulation, replication_factor=2) as (log, _):
        assert log.partition_count == 50
        assert log.topic_id == simulation.brokers.topic_ids[METADATA_TOPIC]
    (topic,) = asked
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (METADATA_TOPIC, 50, 2)
    assert {config.name: config.value for config in topic.configs} == RemoteTopicSettings().topic_configs()


@run_with(simulate)
async def test_a_topic_that_is_there_is_taken_with_its_count(simulation: ClientSimulation, /) -> None:
    metadata_partitions(simulation.brokers, 3)
    async with opened(simulation) as (log, _):
        assert log.partition_count == 3
    assert simulation.brokers.asked(ApiKey.CREATE_TOPICS) == []


@run_with(simulate)
async def test_another_broker_may_make_the_topic_at_the_same_time(simulation: ClientSimulation, /) -> None:
    serve_create_topics(simulation.brokers, ErrorCode.topic_already_exists)
    opening = asyncio.ensure_future(KafkaMetadataEventLog.open(simulation.runtime, config_for(simulation)))
    await until(lambda: bool(simulation.brokers.asked(ApiKey.CREATE_TOPICS)))
    await asyncio.sleep(1)
    metadata_partitions(simulation.brokers, 4)
    log = await opening
    assert log.partition_count == 4
    await log.close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [(ErrorCode.invalid_replication_factor, OperationError), (ErrorCode.topic_already_exists, ClientNetworkError)],
)
@run_with(simulate)
async def test_a_cluster_that_cannot_have_the_topic_is_an_error(
    simulation: ClientSimulation, /, fault: ErrorCode, error: type[Exception]
) -> None:
    serve_create_topics(simulation.brokers, fault)
    with pytest.raises(error):
        await KafkaMetadataEventLog.open(simulation.runtime, config_for(simulation))


@run_with(simulate, node_ids=(1, 2))
async def test_what_is_published_is_read_back_at_its_offset(simulation: ClientSimulation, /) -> None:
    partitions = metadata_partitions(simulation.brokers, 4)
    append_values(partitions[1], [b"before"])
    async with opened(simulation) as (log, sink):
        log.consume(1, 0)
        log.consume(2, 0)
        assert await log.publish(1, b"x") == 1
        assert await log.publish(2, b"y") == 0
        await until(lambda: sink.next_offset(1) == 2 and sink.next_offset(2) == 1)
        assert sink.values(1) == [b"before", b"x"]
        log.stop(1)
        await log.publish(1, b"z")
        await asyncio.sleep(5)
        assert len(sink.values(1)) == 2
        assert await log.end_offsets(range(4)) == {0: 0, 1: 3, 2: 1, 3: 0}


@run_with(simulate)
async def test_events_are_produced_idempotently_to_all_replicas(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    async with opened(simulation) as (log, _):
        simulation.brokers.lose_answers = 1
        simulation.brokers.fail_next(ApiKey.PRODUCE, None, ErrorCode.not_enough_replicas, DisconnectError)
        assert await log.publish(0, b"once") == 0
    assert [record.value for record in partition.records()] == [b"once"]
    assert parse_header(partition.batches[0]).producer_id > 0
    assert {request.body.acks for request in simulation.brokers.asked(ApiKey.PRODUCE)} == {-1}
    assert {r.client_id for r in simulation.brokers.asked(ApiKey.PRODUCE)} == {"__remote_log_metadata_client_5"}


@run_with(simulate, node_ids=(1, 2))
async def test_a_new_leader_gets_the_event(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    async with opened(simulation) as (log, _):
        await log.publish(0, b"a")
        partition.leader = 2
        assert await log.publish(0, b"b") == 1


@run_with(simulate)
async def test_publishing_works_again_once_it_is_allowed(simulation: ClientSimulation, /) -> None:
    metadata_partitions(simulation.brokers, 1)
    simulation.brokers.fail_next(ApiKey.INIT_PRODUCER_ID, ErrorCode.cluster_authorization_failed)
    async with opened(simulation) as (log, _):
        with pytest.raises(OperationError):
            await log.publish(0, b"a")
        assert await log.publish(0, b"b") == 0


@run_with(simulate, node_ids=(1, 2))
async def test_ends_are_reported_for_the_partitions_whose_leader_answers(simulation: ClientSimulation, /) -> None:
    partitions = metadata_partitions(simulation.brokers, 3)
    append_values(partitions[0], [b"a", b"b"])
    partitions[2].leader = -1
    simulation.brokers.brokers[2].answers[ApiKey.LIST_OFFSETS] = lambda _: NO_ANSWER
    async with opened(simulation) as (log, _):
        began = asyncio.get_running_loop().time()
        assert await log.end_offsets(range(3)) == {0: 2}
        assert asyncio.get_running_loop().time() - began <= END_OFFSETS_TIMEOUT_MS / 1000 + 0.1


@run_with(simulate)
async def test_a_topic_that_was_created_anew_is_noticed(simulation: ClientSimulation, /) -> None:
    partitions = metadata_partitions(simulation.brokers, 2)
    append_values(partitions[0], [b"a"])
    async with opened(simulation) as (log, sink):
        log.consume(0, 0)
        await until(lambda: sink.next_offset(0) == 1)
        metadata_partitions(simulation.brokers, 3)
        simulation.brokers.topic_ids[METADATA_TOPIC] = uuid.UUID(int=9)
        simulation.brokers.fail_next(ApiKey.FETCH, ErrorCode.unknown_topic_id)
        await until(lambda: bool(sink.started_over))
        assert (log.topic_id, log.partition_count) == (uuid.UUID(int=9), 3)
        assert sink.started_over == [0, 1, 2]


@run_with(simulate)
async def test_consuming_before_the_start_is_a_mistake(simulation: ClientSimulation, /) -> None:
    metadata_partitions(simulation.brokers, 1)
    log = await KafkaMetadataEventLog.open(simulation.runtime, config_for(simulation))
    with pytest.raises(InvariantError):
        log.consume(0, 0)
    assert log.topic_id != ZERO_UUID
    await log.close()


@run_with(simulate)
async def test_a_bug_while_reading_is_reported(
    simulation: ClientSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> bool:
        raise ZeroDivisionError

    metadata_partitions(simulation.brokers, 1)
    monkeypatch.setattr(KafkaMetadataEventLog, "_is_our_topic", stumble)
    failures: list[BaseException] = []
    log = await KafkaMetadataEventLog.open(simulation.runtime, config_for(simulation), failures.append)
    log.start(RecordedEvents())
    log.consume(0, 0)
    await until(lambda: bool(failures))
    assert isinstance(failures[0], ZeroDivisionError)
    await log.close()
