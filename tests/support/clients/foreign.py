"""The three Python clients behind one face, so that each can write what each other reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import KafkaError
    from confluent_kafka import Message as ConfluentMessage

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LARGE_FETCH_BYTES = 12_000_000
Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """One record as a client sends or sees it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = 0


class Read(NamedTuple):
    """One record as a client read it back."""

    offset: int
    row: Sent
    log_append_time: bool


def _confluent_produce(bootstrap: str, topic: str, rows: Sequence[Sent], codec: str) -> list[int]:
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: ConfluentMessage) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    settings = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "compression.type": codec,
        "message.max.bytes": LARGE_FETCH_BYTES,
    }
    producer = Producer({**settings, "linger.ms": 50})
    for row in rows:
        producer.produce(
            topic,
            partition=0,
            key=row.key,
            value=row.value,
            headers=list(row.headers),
            timestamp=row.timestamp,
            on_delivery=delivered,
        )
    assert producer.flush(120) == 0
    return offsets


def _confluent_consume(bootstrap: str, topic: str, count: int, start: int) -> list[Read]:
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.message.max.bytes": LARGE_FETCH_BYTES, "auto.offset.reset": "error"})
    consumer.assign([ConfluentTopicPartition(topic, 0, start)])
    found: list[Read] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=120)
        assert messages, f"only {len(found)} of {count} records came"
        found += [_confluent_read(message) for message in messages]
    consumer.close()
    return found


def _confluent_read(message: ConfluentMessage) -> Read:
    assert message.error() is None, message.error()
    kind, timestamp = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    row = Sent(message.key(), message.value(), tuple(headers), timestamp)
    return Read(message.offset() or 0, row, kind == TIMESTAMP_LOG_APPEND_TIME)


def _aiokafka_produce(bootstrap: str, topic: str, rows: Sequence[Sent], codec: str) -> list[int]:
    async def run() -> list[int]:
        kind = None if codec == "none" else codec
        settings = {"compression_type": kind, "max_request_size": LARGE_FETCH_BYTES, "linger_ms": 50}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            sent = [
                await producer.send(
                    topic, row.value, row.key, partition=0, timestamp_ms=row.timestamp, headers=list(row.headers)
                )
                for row in rows
            ]
            return [(await future).offset for future in sent]

    return asyncio.run(run())


def _aiokafka_consume(bootstrap: str, topic: str, count: int, start: int) -> list[Read]:
    async def run() -> list[Read]:
        settings = {"max_partition_fetch_bytes": LARGE_FETCH_BYTES, "auto_offset_reset": "none"}
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings) as consumer:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, start)
            return [_python_read(await asyncio.wait_for(consumer.getone(), 20)) for _ in range(count)]

    return asyncio.run(run())


def _python_read(record: object) -> Read:
    key, value, headers, timestamp, offset, kind = (
        getattr(record, name) for name in ("key", "value", "headers", "timestamp", "offset", "timestamp_type")
    )
    return Read(offset, Sent(key, value, tuple((name, item) for name, item in headers), timestamp), kind == 1)


def _kafka_python_produce(bootstrap: str, topic: str, rows: Sequence[Sent], codec: str) -> list[int]:
    kind = None if codec == "none" else codec
    settings = {"compression_type": kind, "max_request_size": LARGE_FETCH_BYTES, "linger_ms": 50}
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        sent = [
            producer.send(
                topic,
                value=row.value,
                key=row.key,
                headers=list(row.headers),
                partition=0,
                timestamp_ms=row.timestamp,
            )
            for row in rows
        ]
        return [future.get(timeout=120).offset for future in sent]
    finally:
        producer.close(timeout=10)


def _kafka_python_consume(bootstrap: str, topic: str, count: int, start: int) -> list[Read]:
    settings = {"max_partition_fetch_bytes": LARGE_FETCH_BYTES, "auto_offset_reset": "none", "group_id": None}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **settings, consumer_timeout_ms=20_000)
    try:
        partition = PythonTopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, start)
        found = [_python_read(record) for _, record in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()
    assert len(found) == count, f"only {len(found)} of {count} records came"
    return found


class ClientLibrary(NamedTuple):
    """How one library writes rows to partition 0 of a topic and reads them back by offset, without a group."""

    produce: Callable[[str, str, Sequence[Sent], str], list[int]]
    consume: Callable[[str, str, int, int], list[Read]]


CLIENTS = {
    "confluent-kafka": ClientLibrary(_confluent_produce, _confluent_consume),
    "aiokafka": ClientLibrary(_aiokafka_produce, _aiokafka_consume),
    "kafka-python": ClientLibrary(_kafka_python_produce, _kafka_python_consume),
}
