"""What producers and consumers rely on beyond plain records: log append time, lookups by time, large messages,
idempotence, topics created on demand, and the errors they expect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from tests.support.clients.foreign import CLIENTS, Sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker

pytestmark = pytest.mark.interop

BASE_MS = 1_700_000_000_000
TEN_MEGABYTES = 10_000_000


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    """A librdkafka consumer that never joins a group."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "unused", "enable.auto.commit": False}
    made = Consumer({**settings, "auto.offset.reset": "error", "enable.partition.eof": True})
    yield made
    made.close()


def _deliver(bootstrap: str, settings: dict[str, object], topic: str, values: list[bytes]) -> list[KafkaError | None]:
    """Send the values to partition 0 and return each one's delivery error, in the order of delivery."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        errors.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(120) == 0
    return errors


@pytest.mark.parametrize("client", CLIENTS)
def test_log_append_time_replaces_the_clients_timestamp(bootstrap: str, make_topic: TopicMaker, client: str) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = time.time_ns() // 1_000_000
    CLIENTS[client].produce(bootstrap, topic, [Sent(b"k", b"v", (), 1000), Sent(b"k", b"w", (), 2000)], "gzip")
    found = CLIENTS[client].consume(bootstrap, topic, 2, 0)
    after = time.time_ns() // 1_000_000
    assert all(read.log_append_time for read in found)
    assert all(before <= read.row.timestamp <= after for read in found)
    assert [read.row.value for read in found] == [b"v", b"w"]


@pytest.mark.parametrize("client", CLIENTS)
def test_ten_megabyte_message_passes_where_the_topic_allows_it(
    bootstrap: str, make_topic: TopicMaker, client: str
) -> None:
    topic = make_topic(config={"max.message.bytes": str(TEN_MEGABYTES + 1_000_000)})
    value = bytes(TEN_MEGABYTES - 1) + b"!"
    rows = [Sent(b"big", value, (), BASE_MS), Sent(b"small", b"after", (), BASE_MS)]
    assert CLIENTS[client].produce(bootstrap, topic, rows, "none") == [0, 1]
    assert [read.row for read in CLIENTS[client].consume(bootstrap, topic, 2, 0)] == rows


def test_message_over_the_topics_limit_is_refused(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"max.message.bytes": "2000"})
    (error,) = _deliver(bootstrap, {}, topic, [bytes(3000)])
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert _deliver(bootstrap, {}, topic, [bytes(1000)]) == [None]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_record(bootstrap: str, make_topic: TopicMaker, acks: str) -> None:
    topic = make_topic()
    values = [b"%d" % number for number in range(50)]
    assert _deliver(bootstrap, {"acks": acks}, topic, values) == [None] * 50
    assert [read.row.value for read in CLIENTS["confluent-kafka"].consume(bootstrap, topic, 50, 0)] == values


def test_idempotent_producer_keeps_order_over_many_small_batches(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    values = [b"%d" % number for number in range(2000)]
    settings: dict[str, object] = {"enable.idempotence": True, "batch.num.messages": 7, "linger.ms": 0}
    assert _deliver(bootstrap, settings, topic, values) == [None] * 2000
    found = CLIENTS["confluent-kafka"].consume(bootstrap, topic, 2000, 0)
    assert [(read.offset, read.row.value) for read in found] == list(enumerate(values))


def test_offsets_for_times_finds_the_first_record_not_older(
    bootstrap: str, make_topic: TopicMaker, consumer: Consumer
) -> None:
    topic = make_topic()
    rows = [Sent(None, b"v", (), BASE_MS + 100 * index) for index in range(30)]
    CLIENTS["confluent-kafka"].produce(bootstrap, topic, rows, "lz4")
    asked = [BASE_MS - 1, BASE_MS, BASE_MS + 101, BASE_MS + 2900, BASE_MS + 2901]
    answers = [consumer.offsets_for_times([TopicPartition(topic, 0, at)], timeout=120)[0] for at in asked]
    assert [answer.error for answer in answers] == [None] * 5
    assert [answer.offset for answer in answers] == [0, 0, 2, 29, -1]


def test_kafka_python_offsets_for_times_agrees(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    rows = [Sent(None, b"v", (), BASE_MS + 100 * index) for index in range(10)]
    CLIENTS["kafka-python"].produce(bootstrap, topic, rows, "none")
    reader = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        partition = PythonTopicPartition(topic, 0)
        found = reader.offsets_for_times({partition: BASE_MS + 250})[partition]
        assert (found.offset, found.timestamp) == (3, BASE_MS + 300)
        assert reader.offsets_for_times({partition: BASE_MS + 901})[partition] is None
        assert (reader.beginning_offsets([partition]), reader.end_offsets([partition])) == (
            {partition: 0},
            {partition: 10},
        )
    finally:
        reader.close()


def test_watermarks_and_end_of_partition(bootstrap: str, make_topic: TopicMaker, consumer: Consumer) -> None:
    topic = make_topic(partitions=2)
    _deliver(bootstrap, {}, topic, [b"a", b"b", b"c"])
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=120) == (0, 3)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=120) == (0, 0)
    consumer.assign([TopicPartition(topic, 0, 2)])
    first = consumer.poll(120)
    end = consumer.poll(120)
    assert first is not None
    assert (first.value(), first.offset()) == (b"c", 2)
    assert end is not None
    end_error = end.error()
    assert end_error is not None
    assert (end_error.code(), end.offset()) == (KafkaError._PARTITION_EOF, 3)


def test_reading_beyond_the_end_is_an_offset_error(bootstrap: str, make_topic: TopicMaker, consumer: Consumer) -> None:
    topic = make_topic()
    _deliver(bootstrap, {}, topic, [b"a"])
    consumer.assign([TopicPartition(topic, 0, 1000)])
    message = consumer.poll(120)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in error.str()


def test_first_produce_creates_the_topic(bootstrap: str, admin: AdminClient) -> None:
    assert _deliver(bootstrap, {}, "made-on-demand", [b"first"]) == [None]
    (read,) = CLIENTS["confluent-kafka"].consume(bootstrap, "made-on-demand", 1, 0)
    assert read.row.value == b"first"
    assert len(admin.list_topics(timeout=120).topics["made-on-demand"].partitions) == 1


def test_a_consumer_does_not_create_the_topic(admin: AdminClient, consumer: Consumer) -> None:
    asked = consumer.list_topics("never-made", timeout=120).topics["never-made"]
    assert asked.error is not None
    assert asked.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "never-made" not in admin.list_topics(timeout=120).topics


def test_list_offsets_answers_every_special_timestamp(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient
) -> None:
    topic = make_topic()
    rows = [Sent(None, b"v", (), BASE_MS + stamp) for stamp in (10, 40, 30, 20)]
    CLIENTS["aiokafka"].produce(bootstrap, topic, rows, "none")
    partition = TopicPartition(topic, 0)

    def ask(spec: OffsetSpec) -> tuple[int, int]:
        found = admin.list_offsets({partition: spec})[partition].result(120)
        return found.offset, found.timestamp

    assert ask(OffsetSpec.earliest()) == (0, -1)
    assert ask(OffsetSpec.latest()) == (4, -1)
    assert ask(OffsetSpec.max_timestamp()) == (1, BASE_MS + 40)
    assert ask(OffsetSpec.for_timestamp(BASE_MS + 25)) == (1, BASE_MS + 40)


def test_a_stale_record_is_refused_where_the_topic_bounds_timestamps(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"message.timestamp.before.max.ms": "1000"})
    with pytest.raises(AssertionError, match=r"(?i)timestamp"):
        CLIENTS["confluent-kafka"].produce(bootstrap, topic, [Sent(None, b"old", (), BASE_MS)], "none")


def test_compacted_topic_refuses_records_without_key(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    (error,) = _deliver(bootstrap, {}, topic, [b"no key"])
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD


@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_broker_side_recompression_keeps_the_records(bootstrap: str, make_topic: TopicMaker, stored: str) -> None:
    topic = make_topic(config={"compression.type": stored})
    rows = [Sent(b"%d" % index, b"text " * 50, (("h", None),), BASE_MS + index) for index in range(20)]
    assert CLIENTS["confluent-kafka"].produce(bootstrap, topic, rows, "lz4") == list(range(20))
    assert [read.row for read in CLIENTS["confluent-kafka"].consume(bootstrap, topic, 20, 0)] == rows
    assert [read.row for read in CLIENTS["aiokafka"].consume(bootstrap, topic, 20, 0)] == rows
