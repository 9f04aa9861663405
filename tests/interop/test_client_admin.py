"""Topics, partitions, configs, offsets and log dirs through the admin clients of three libraries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic

from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker

pytestmark = pytest.mark.interop


def _error_of(future: Future[object]) -> tuple[int, str]:
    with pytest.raises(KafkaException) as caught:
        future.result(120)
    error: KafkaError = caught.value.args[0]
    return error.code(), error.str()


def _configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(120)
    return found


def _alter(admin: AdminClient, kind: ResourceType, name: str, *entries: ConfigEntry) -> None:
    resource = ConfigResource(kind, name, incremental_configs=list(entries))
    admin.incremental_alter_configs([resource])[resource].result(120)


def _source(entry: ConfigEntry) -> ConfigSource:
    return ConfigSource(entry.source)  # The library hands out the bare number.


def _set(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def _topic_ids(admin: AdminClient, names: list[str]) -> list[str]:
    described = admin.describe_topics(TopicCollection(names))
    return [str(described[name].result(120).topic_id) for name in names]


def _wait_gone(admin: AdminClient, name: str) -> None:
    # A broker may answer from its own view of the metadata, which follows the controller's a moment later.
    wait_until(lambda: name not in admin.list_topics(timeout=120).topics, f"{name} is gone")


def test_created_topic_is_described_and_deleted(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("life", 3, 1)])["life"].result(120)
    topic = admin.list_topics("life", timeout=120).topics["life"]
    assert sorted(topic.partitions) == [0, 1, 2]
    brokers = list(admin.list_topics(timeout=120).brokers)
    assert {tuple(partition.replicas) for partition in topic.partitions.values()} == {tuple(brokers)}
    assert {tuple(partition.isrs) for partition in topic.partitions.values()} == {tuple(brokers)}
    admin.delete_topics(["life"])["life"].result(120)
    _wait_gone(admin, "life")


def test_recreated_topic_has_a_new_id_and_no_records(bootstrap: str, admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("again", 1, 1)])["again"].result(120)
    producer.produce("again", b"old", partition=0)
    assert producer.flush(120) == 0
    (first,) = _topic_ids(admin, ["again"])
    admin.delete_topics(["again"])["again"].result(120)
    admin.create_topics([NewTopic("again", 1, 1)])["again"].result(120)
    (second,) = _topic_ids(admin, ["again"])
    assert first != second
    partition = TopicPartition("again", 0)
    assert admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(120).offset == 0


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewTopic("bad name", 1, 1), KafkaError.TOPIC_EXCEPTION, "Topic name"),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION, "Topic name"),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION, "249"),
        (NewTopic("many", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR, "3"),
        (NewTopic("conf", 1, 1, config={"nonsense": "1"}), KafkaError.INVALID_CONFIG, "nonsense"),
        (NewTopic("conf", 1, 1, config={"retention.ms": "x"}), KafkaError.INVALID_CONFIG, "retention.ms"),
        (NewTopic("none", 0, 1), KafkaError.INVALID_PARTITIONS, "non-positive"),
    ],
    ids=["space", "dots", "long", "replication", "unknown-config", "bad-config", "no-partitions"],
)
def test_impossible_topic_is_refused_with_kafkas_code(admin: AdminClient, new: NewTopic, code: int, words: str) -> None:
    found, message = _error_of(admin.create_topics([new])[new.topic])
    assert found == code, message
    assert words in message


def test_existing_topic_cannot_be_created_twice(admin: AdminClient, make_topic: TopicMaker) -> None:
    name = make_topic()
    code, message = _error_of(admin.create_topics([NewTopic(name, 1, 1)])[name])
    assert (code, message) == (KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def test_deleting_an_unknown_topic_is_an_error(admin: AdminClient) -> None:
    code, _message = _error_of(admin.delete_topics(["unknown"])["unknown"])
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("dry", 1, 1)], validate_only=True)["dry"].result(120)
    assert "dry" not in admin.list_topics(timeout=120).topics


def test_partitions_grow_but_never_shrink(bootstrap: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    name = make_topic()
    admin.create_partitions([NewPartitions(name, 4)])[name].result(120)
    wait_until(lambda: len(admin.list_topics(name, timeout=120).topics[name].partitions) == 4, "4 partitions show")
    code, message = _error_of(admin.create_partitions([NewPartitions(name, 2)])[name])
    assert code == KafkaError.INVALID_PARTITIONS
    assert "4" in message
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(name, b"new", partition=3)
    assert producer.flush(120) == 0


def test_topic_config_set_append_and_delete(admin: AdminClient, make_topic: TopicMaker) -> None:
    name = make_topic(config={"retention.ms": "7000"})
    before = _configs(admin, ResourceType.TOPIC, name)
    assert before["retention.ms"].value == "7000"
    assert _source(before["retention.ms"]) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert before["segment.bytes"].is_default
    append = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    delete = ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    _alter(admin, ResourceType.TOPIC, name, _set("max.message.bytes", "5000"), append, delete)
    after = _configs(admin, ResourceType.TOPIC, name)
    assert after["max.message.bytes"].value == "5000"
    assert after["cleanup.policy"].value == "delete,compact"
    assert (after["retention.ms"].value, after["retention.ms"].is_default) == ("604800000", True)


def test_topic_config_takes_effect_without_restart(bootstrap: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    name = make_topic()
    _alter(admin, ResourceType.TOPIC, name, _set("max.message.bytes", "1000"))
    errors: list[KafkaError | None] = []

    def is_refused() -> bool:
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        producer.produce(name, bytes(2000), partition=0, on_delivery=lambda error, _message: errors.append(error))
        assert producer.flush(120) == 0
        last = errors[-1]
        return last is not None and last.code() == KafkaError.MSG_SIZE_TOO_LARGE

    wait_until(is_refused, "the new limit holds")


@pytest.mark.parametrize(
    ("entry", "words"),
    [(_set("retention.ms", "soon"), "retention.ms"), (_set("no.such.key", "1"), "no.such.key")],
    ids=["bad-value", "unknown-key"],
)
def test_bad_topic_config_is_refused(
    admin: AdminClient, make_topic: TopicMaker, entry: ConfigEntry, words: str
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, make_topic(), incremental_configs=[entry])
    code, message = _error_of(admin.incremental_alter_configs([resource])[resource])
    assert code == KafkaError.INVALID_CONFIG
    assert words in message


def test_broker_config_is_set_and_deleted_while_running(admin: AdminClient) -> None:
    (broker,) = admin.list_topics(timeout=120).brokers

    def shown() -> tuple[str | None, ConfigSource]:
        entry = _configs(admin, ResourceType.BROKER, str(broker))["log.segment.bytes"]
        return entry.value, _source(entry)

    _alter(admin, ResourceType.BROKER, str(broker), _set("log.segment.bytes", "2000000"))
    wait_until(lambda: shown() == ("2000000", ConfigSource.DYNAMIC_BROKER_CONFIG), "the new value shows")
    delete = ConfigEntry("log.segment.bytes", None, incremental_operation=AlterConfigOpType.DELETE)
    _alter(admin, ResourceType.BROKER, str(broker), delete)
    wait_until(lambda: shown() == ("1073741824", ConfigSource.DEFAULT_CONFIG), "the default is back")


def test_read_only_broker_config_cannot_be_altered(admin: AdminClient) -> None:
    (broker,) = admin.list_topics(timeout=120).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[_set("node.id", "9")])
    code, message = _error_of(admin.incremental_alter_configs([resource])[resource])
    assert code == KafkaError.INVALID_REQUEST
    assert "node.id" in message


def test_delete_records_moves_the_log_start(bootstrap: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    name = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(120) == 0
    at_four = TopicPartition(name, 0, 4)
    assert admin.delete_records([at_four])[at_four].result(120).low_watermark == 4
    partition = TopicPartition(name, 0)
    assert admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(120).offset == 4
    beyond = TopicPartition(name, 0, 11)
    code, _message = _error_of(admin.delete_records([beyond])[beyond])
    assert code == KafkaError.OFFSET_OUT_OF_RANGE


def test_describe_cluster_names_one_node_that_is_controller(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(120)
    (only,) = cluster.nodes
    assert f"{only.host}:{only.port}" == bootstrap
    assert cluster.controller.id == only.id
    assert len(cluster.cluster_id) == 22


def test_aiokafka_admin_creates_describes_and_deletes(bootstrap: str, admin: AdminClient) -> None:
    async def run() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            created = await client.create_topics([AioNewTopic("aio", 2, 1, topic_configs={"retention.ms": "9000"})])
            assert [(name, code) for name, code, *_rest in created.topic_errors] == [("aio", 0)]
            assert "aio" in await client.list_topics()
            (described,) = await client.describe_topics(["aio"])
            assert (described["error_code"], len(described["partitions"])) == (0, 2)
            await client.delete_topics(["aio"])
        finally:
            await client.close()

    asyncio.run(run())
    _wait_gone(admin, "aio")


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """The admin client of kafka-python."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_kafka_python_admin_creates_describes_and_deletes(python_admin: KafkaAdminClient) -> None:
    python_admin.create_topics([PythonNewTopic(name="python", num_partitions=2, replication_factor=1)])
    assert "python" in python_admin.list_topics()
    (described,) = python_admin.describe_topics(["python"])
    assert len(described["partitions"]) == 2
    python_admin.delete_topics(["python"])
    wait_until(lambda: "python" not in python_admin.list_topics(), "the topic is gone")


def test_kafka_python_admin_lists_log_dirs_and_features(python_admin: KafkaAdminClient, make_topic: TopicMaker) -> None:
    name = make_topic()
    assert name in str(python_admin.describe_log_dirs())
    assert "metadata.version" in str(python_admin.describe_features())
