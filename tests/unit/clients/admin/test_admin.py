"""Admin calls: what is asked, how answers and errors come back."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import (
    ActiveProducer,
    ConfigChange,
    ConfigOperation,
    ConfigOwner,
    NewTopic,
    ResourceType,
)
from crabka.clients.fetcher.offsets import LATEST
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

TOPIC = ConfigOwner(ResourceType.TOPIC, "t")


def created(request: ReceivedRequest, *codes: ErrorCode) -> Any:
    results = [
        request.types.new(
            "CreatableTopicResult",
            name=topic.name,
            topic_id=uuid.UUID(int=9),
            error_code=code,
            error_message=None if code is ErrorCode.none else "because",
            num_partitions=topic.num_partitions,
            replication_factor=1,
            configs=[],
        )
        for topic, code in zip(request.body.topics, codes, strict=True)
    ]
    return request.types.message(throttle_time=0, topics=results)


@run_with(lambda test: with_admin(test, CREATE_TOPICS=lambda request: created(request, ErrorCode.none, ErrorCode.none)))
async def test_create_topics_sends_counts_configs_and_assignments(
    admin: Admin, simulation: ClientSimulation, /
) -> None:
    topics = [NewTopic("a", 3, 1, {"retention.ms": "5"}), NewTopic("b", assignments={0: [1]})]
    results = await admin.create_topics(topics, validate_only=True)
    assert [result.name for result in results] == ["a", "b"]
    assert results[0].topic_id == uuid.UUID(int=9)
    (request,) = simulation.brokers.asked(ApiKey.CREATE_TOPICS)
    first, second = request.body.topics
    assert (first.num_partitions, first.configs[0].name, first.configs[0].value) == (3, "retention.ms", "5")
    assert (second.num_partitions, second.assignments[0].broker_ids) == (-1, (1,))
    assert request.body.validate_only


@run_with(
    lambda test: with_admin(
        test, CREATE_TOPICS=lambda request: created(request, ErrorCode.none, ErrorCode.topic_already_exists)
    )
)
async def test_first_error_is_raised_with_the_brokers_message(admin: Admin, /) -> None:
    with pytest.raises(OperationError, match="topic b: because") as caught:
        await admin.create_topics([NewTopic("a"), NewTopic("b")])
    assert caught.value.error_code is ErrorCode.topic_already_exists


def test_missing_controller_is_waited_for() -> None:
    codes = iter([ErrorCode.not_controller, ErrorCode.not_controller, ErrorCode.none])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        await admin.create_topics([NewTopic("a")])
        assert len(simulation.brokers.asked(ApiKey.CREATE_TOPICS)) == 3

    with_admin(test, CREATE_TOPICS=lambda request: created(request, next(codes)))


@pytest.mark.parametrize("version", [1, 6])
def test_delete_topics_names_them_in_every_version(version: int) -> None:
    def answer(request: ReceivedRequest) -> Any:
        names = getattr(request.body, "topic_names", None) or [topic.name for topic in request.body.topics]
        results = [
            request.types.new(
                "DeletableTopicResult", name=name, topic_id=None, error_code=ErrorCode.none, error_message=None
            )
            for name in names
        ]
        return request.types.message(throttle_time=0, responses=results)

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        simulation.brokers.brokers[1].versions[ApiKey.DELETE_TOPICS] = (1, version)
        await admin.delete_topics(["a", "b"])
        assert simulation.brokers.asked(ApiKey.DELETE_TOPICS)[0].version == version

    with_admin(test, DELETE_TOPICS=answer)


def test_create_partitions_sends_totals() -> None:
    def answer(request: ReceivedRequest) -> Any:
        (topic,) = request.body.topics
        code = ErrorCode.none if topic.count > 2 else ErrorCode.invalid_partitions
        result = request.types.new("CreatePartitionsTopicResult", name=topic.name, error_code=code, error_message=None)
        return request.types.message(throttle_time=0, results=[result])

    async def test(admin: Admin, _: ClientSimulation) -> None:
        await admin.create_partitions({"t": 5})
        with pytest.raises(OperationError, match="invalid_partitions"):
            await admin.create_partitions({"t": 1})

    with_admin(test, CREATE_PARTITIONS=answer)


@run_with(with_admin)
async def test_topics_are_listed_and_described(admin: Admin, simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("a", 2)
    simulation.brokers.create_topic("b")
    assert set(await admin.list_topics()) == {"a", "b"}
    assert len((await admin.describe_topics(["a"]))["a"].partitions) == 2
    with pytest.raises(OperationError, match="nope"):
        await admin.describe_topics(["a", "nope"])


def test_delete_records_and_offsets_ask_the_leaders() -> None:
    def answer(request: ReceivedRequest) -> Any:
        new = request.types.new
        topics = [
            new(
                "DeleteRecordsTopicResult",
                name=topic.name,
                partitions=[
                    new(
                        "DeleteRecordsPartitionResult",
                        partition_index=partition.partition_index,
                        low_watermark=partition.offset,
                        error_code=ErrorCode.none,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
        return request.types.message(throttle_time=0, topics=topics)

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        simulation.brokers.create_topic("t", 2)
        before = {TopicPartition("t", 0): 4, TopicPartition("t", 1): 6}
        assert await admin.delete_records(before) == before
        assert len(simulation.brokers.asked(ApiKey.DELETE_RECORDS)) == 2
        assert (await admin.list_offsets({TopicPartition("t", 1): LATEST}))[TopicPartition("t", 1)].offset == 0

    with_admin(test, node_ids=(1, 2), DELETE_RECORDS=answer)


def described(request: ReceivedRequest) -> Any:
    new = request.types.new
    (resource,) = request.body.resources
    config = new(
        "DescribeConfigsResourceResult",
        name="retention.ms",
        value="7",
        read_only=False,
        config_source=1,
        is_sensitive=False,
        synonyms=[new("DescribeConfigsSynonym", name="log.retention.ms", value="8", source=5)],
        config_type=5,
        documentation=None,
    )
    result = new(
        "DescribeConfigsResult",
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[config],
    )
    return request.types.message(throttle_time=0, results=[result])


@run_with(with_admin, DESCRIBE_CONFIGS=described)
async def test_configs_come_with_source_and_synonyms(admin: Admin, /) -> None:
    config = (await admin.describe_configs(TOPIC, ["retention.ms"]))["retention.ms"]
    assert (config.value, config.source, config.synonyms) == ("7", 1, (("log.retention.ms", "8", 5),))


@run_with(with_admin, node_ids=(1, 2), DESCRIBE_CONFIGS=described)
async def test_configs_of_a_broker_are_asked_from_that_broker(admin: Admin, simulation: ClientSimulation, /) -> None:
    for node_id in (2, 1):
        await admin.describe_configs(ConfigOwner(ResourceType.BROKER, str(node_id)))
        assert len(simulation.brokers.brokers[node_id].asked(ApiKey.DESCRIBE_CONFIGS)) == 1


def test_alter_configs_sends_operations() -> None:
    def answer(request: ReceivedRequest) -> Any:
        result = request.types.new(
            "AlterConfigsResourceResponse",
            error_code=ErrorCode.invalid_config if request.body.validate_only else ErrorCode.none,
            error_message="wrong",
            resource_type=2,
            resource_name="t",
        )
        return request.types.message(throttle_time=0, responses=[result])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        changes = [ConfigChange("a", "1"), ConfigChange("b", None, ConfigOperation.DELETE)]
        await admin.alter_configs(TOPIC, changes)
        (request,) = simulation.brokers.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        sent = [(c.name, c.value, c.config_operation) for c in request.body.resources[0].configs]
        assert sent == [("a", "1", 0), ("b", None, 1)]
        with pytest.raises(OperationError, match="resource t: wrong"):
            await admin.alter_configs(TOPIC, changes, validate_only=True)

    with_admin(test, INCREMENTAL_ALTER_CONFIGS=answer)


def test_describe_producers() -> None:
    def answer(request: ReceivedRequest) -> Any:
        new = request.types.new
        state = new(
            "ProducerState",
            producer_id=4,
            producer_epoch=1,
            last_sequence=7,
            last_timestamp=8,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        )
        result = new("PartitionResponse", partition_index=0, error_code=ErrorCode.none, active_producers=[state])
        return request.types.message(throttle_time=0, topics=[new("TopicResponse", name="t", partitions=[result])])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        simulation.brokers.create_topic("t")
        partition = TopicPartition("t", 0)
        assert await admin.describe_producers([partition]) == {partition: [ActiveProducer(4, 1, 7, 8, -1, -1)]}

    with_admin(test, DESCRIBE_PRODUCERS=answer)
