"""Our clients against a whole Crabka node over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crabka.clients import (
    ConfigChange,
    ConfigOperation,
    ConfigOwner,
    FetchedRecord,
    FetcherSettings,
    GroupOffset,
    NewTopic,
    OffsetReset,
    ProducerSettings,
    ResourceType,
    SyncAdmin,
    SyncFetcher,
    SyncProducer,
)
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.embedded import Broker
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.compression import CODEC_NAMES

FROM_START = FetcherSettings(offset_reset=OffsetReset.EARLIEST)


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        yield broker.bootstrap_servers


def read(bootstrap: str, topic: str, partition_count: int, count: int) -> list[FetchedRecord]:
    records: list[FetchedRecord] = []
    with SyncFetcher(bootstrap, FROM_START) as fetcher:
        fetcher.assign([TopicPartition(topic, index) for index in range(partition_count)])
        while len(records) < count:
            polled = fetcher.poll(10_000)
            assert polled, f"only {len(records)} of {count} records came"
            records += polled
    return records


def test_records_of_every_codec_are_read_back(bootstrap: str) -> None:
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 3, 1)])
    for codec in range(len(CODEC_NAMES)):
        with SyncProducer(bootstrap, ProducerSettings(codec=codec)) as producer:
            producer.send_many("t", ((b"k%d" % n, b"%d-%d" % (codec, n)) for n in range(200)))
    values = {record.value for record in read(bootstrap, "t", 3, 1_000)}
    assert values == {b"%d-%d" % (codec, n) for codec in range(5) for n in range(200)}


def test_one_key_keeps_its_order_in_one_partition(bootstrap: str) -> None:
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 4, 1)])
    with SyncProducer(bootstrap, ProducerSettings(batch_bytes=200)) as producer:
        delivered = producer.send_many("t", ((b"key", b"%d" % n) for n in range(300)))
    assert len({metadata.partition for metadata in delivered}) == 1
    assert [metadata.offset for metadata in delivered] == list(range(300))
    assert [record.value for record in read(bootstrap, "t", 4, 300)] == [b"%d" % n for n in range(300)]


def test_records_survive_a_restart_and_producing_goes_on(tmp_path: Path) -> None:
    for attempt in range(3):
        with Broker(data_dir=str(tmp_path / "data")) as broker:
            if attempt == 0:
                with SyncAdmin(broker.bootstrap_servers) as admin:
                    admin.create_topics([NewTopic("t", 1, 1)])
            with SyncProducer(broker.bootstrap_servers) as producer:
                assert producer.send("t", b"%d" % attempt).result(120).offset == attempt
            assert len(read(broker.bootstrap_servers, "t", 1, attempt + 1)) == attempt + 1


def test_log_append_time_is_reported_and_read(bootstrap: str) -> None:
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1, {"message.timestamp.type": "LogAppendTime"})])
    with SyncProducer(bootstrap) as producer:
        metadata = producer.send("t", b"v", timestamp=5, headers=(("h", None),)).result(120)
    (record,) = read(bootstrap, "t", 1, 1)
    assert record.timestamp == metadata.timestamp > 5
    assert record.headers == (("h", None),)


def test_compacted_topic_refuses_records_without_key(bootstrap: str) -> None:
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1, {"cleanup.policy": "compact"})])
    with SyncProducer(bootstrap) as producer:
        with pytest.raises(OperationError) as caught:
            producer.send("t", b"v").result(120)
        assert caught.value.error_code is ErrorCode.invalid_record
        assert producer.send("t", b"v", b"k").result(120).offset == 0


def test_topics_and_partitions_are_managed(bootstrap: str) -> None:
    with SyncAdmin(bootstrap) as admin:
        (created,) = admin.create_topics([NewTopic("t", 2, 1)])
        with pytest.raises(OperationError) as caught:
            admin.create_topics([NewTopic("t", 2, 1)])
        assert caught.value.error_code is ErrorCode.topic_already_exists
        admin.create_partitions({"t": 3})
        described = admin.describe_topics(["t"])["t"]
        assert (len(described.partitions), described.topic_id) == (3, created.topic_id)
        admin.delete_topics(["t"])
        assert "t" not in admin.list_topics()


def test_configs_are_changed_and_described(bootstrap: str) -> None:
    resource = ConfigOwner(ResourceType.TOPIC, "t")
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
        admin.alter_configs(resource, [ConfigChange("retention.ms", "12345")])
        config = admin.describe_configs(resource, ["retention.ms"])["retention.ms"]
        assert (config.value, config.source) == ("12345", 1)
        admin.alter_configs(resource, [ConfigChange("retention.ms", None, ConfigOperation.DELETE)])
        assert admin.describe_configs(resource, ["retention.ms"])["retention.ms"].source == 5
        with pytest.raises(OperationError) as caught:
            admin.alter_configs(resource, [ConfigChange("retention.ms", "soon")])
        assert caught.value.error_code is ErrorCode.invalid_config


def test_records_are_deleted_and_positions_reset(bootstrap: str) -> None:
    partition = TopicPartition("t", 0)
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
        with SyncProducer(bootstrap) as producer:
            producer.send_many("t", ((None, b"%d" % n) for n in range(10)))
        assert admin.delete_records({partition: 4}) == {partition: 4}
        assert admin.list_offsets({partition: EARLIEST})[partition].offset == 4
        assert admin.list_offsets({partition: LATEST})[partition].offset == 10
    with SyncFetcher(bootstrap, FROM_START) as fetcher:
        fetcher.assign({partition: 0})
        assert [record.offset for record in fetcher.poll(10_000)] == list(range(4, 10))


def test_cluster_log_dirs_and_producers_are_described(bootstrap: str) -> None:
    partition = TopicPartition("t", 0)
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
        with SyncProducer(bootstrap) as producer:
            producer.send_many("t", [(None, b"a"), (None, b"b")])
        cluster = admin.cluster.describe()
        (broker,) = cluster.brokers
        replicas = {
            name: info for entry in admin.log_dirs.describe(broker.node_id) for name, info in entry.replicas.items()
        }
        assert replicas["t", 0].size_bytes > 0
        (state,) = admin.describe_producers([partition])[partition]
        assert state.last_sequence == 1
        assert admin.cluster.describe_features()["metadata.version"].finalized > 0


def test_groups_are_managed_without_being_a_member(bootstrap: str) -> None:
    partition, other = TopicPartition("t", 0), TopicPartition("t", 1)
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 2, 1)])
        assert admin.groups.list_offsets("g") == {}
        admin.groups.alter_offsets("g", {partition: 7, other: 8})
        assert admin.groups.list_offsets("g") == {partition: GroupOffset(7, -1, ""), other: GroupOffset(8, -1, "")}
        assert [(group.group_id, group.state) for group in admin.groups.list(states=["Empty"])] == [("g", "Empty")]
        description = admin.groups.describe("g")
        assert (description.type, description.state, description.members) == ("classic", "Empty", ())
        admin.groups.delete_offsets("g", [other])
        assert list(admin.groups.list_offsets("g")) == [partition]
        admin.groups.delete("g")
        with pytest.raises(OperationError) as caught:
            admin.groups.describe("g")
        assert caught.value.error_code is ErrorCode.group_id_not_found
