"""Transactional producers of the three Python clients behind one face, and readers of either isolation level."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import KafkaError as PythonKafkaError
from kafka.structs import OffsetAndMetadata

from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 120
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
# What a producer raises that was fenced or whose transaction was aborted for it, whatever the library.
REFUSED = (KafkaException, AioKafkaError, PythonKafkaError)


class GroupPosition(NamedTuple):
    """How far a group without members has read one partition: what a transaction commits along with its records."""

    group: str
    topic: str
    partition: int
    offset: int


class LibraryProducer(Protocol):
    """A producer with a transactional id, initialized; every call waits until the broker has answered."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, partition: int, value: bytes) -> int:
        """Write one record and return its offset."""

    def send_offsets(self, position: GroupPosition) -> None:
        """Add an offset to the transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Close the connections; what becomes of an open transaction is the library's affair."""


class ConfluentTransactions:
    """librdkafka's."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Connect and initialize."""
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        # An older producer whose transaction is still being ended answers CONCURRENT_TRANSACTIONS: ask again soon.
        quick = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
        limits = {"message.timeout.ms": min(timeout_ms, 60_000)}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings, **quick, **limits})
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> int:
        """Write one record and return its offset."""
        reports: list[tuple[KafkaError | None, int | None]] = []
        self._producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, sent: reports.append((error, sent.offset()))
        )
        try:
            self._producer.flush(TIMEOUT_S)
        except SystemError as confusion:
            # The library calls back although it is about to raise, which Python does not take.
            raise confusion.__cause__ or confusion from None
        ((error, offset),) = reports
        if error is not None:
            raise KafkaException(error)
        assert offset is not None
        return offset

    def send_offsets(self, position: GroupPosition) -> None:
        """Add an offset to the transaction."""
        consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": position.group, "log_level": 0})
        offsets = [TopicPartition(position.topic, position.partition, position.offset)]
        self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()

    def commit(self) -> None:
        """Commit the transaction."""
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        """Abort the transaction."""
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        """Forget the producer, which closes its connections."""
        del self._producer


class AiokafkaTransactions:
    """aiokafka's, on a loop of its own that runs while a call waits."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Connect and initialize."""
        self._runner = asyncio.Runner()
        settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        self._producer = self._run(self._start(bootstrap, settings))

    async def _start(self, bootstrap: str, settings: dict[str, Any]) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=20, **settings)
        await producer.start()
        return producer

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(call, TIMEOUT_S)

        return self._runner.run(limited())

    def begin(self) -> None:
        """Begin a transaction."""
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> int:
        """Write one record and return its offset."""
        return int(self._run(self._producer.send_and_wait(topic, value, partition=partition)).offset)

    def send_offsets(self, position: GroupPosition) -> None:
        """Add an offset to the transaction."""
        offsets = {AioTopicPartition(position.topic, position.partition): position.offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, position.group))

    def commit(self) -> None:
        """Commit the transaction."""
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        """Abort the transaction."""
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        """Close the connections."""
        self._run(self._producer.stop())
        self._runner.close()


class KafkaPythonTransactions:
    """kafka-python's."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Connect and initialize."""
        settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        quick = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, **quick, **settings)
        self._producer.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> int:
        """Write one record and return its offset."""
        return int(self._producer.send(topic, value=value, partition=partition).get(TIMEOUT_S).offset)

    def send_offsets(self, position: GroupPosition) -> None:
        """Add an offset to the transaction."""
        offsets = {PythonTopicPartition(position.topic, position.partition): OffsetAndMetadata(position.offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, position.group)

    def commit(self) -> None:
        """Commit the transaction."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort the transaction."""
        self._producer.abort_transaction()

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=10)


TRANSACTIONAL: dict[str, Callable[..., LibraryProducer]] = {
    "confluent-kafka": ConfluentTransactions,
    "aiokafka": AiokafkaTransactions,
    "kafka-python": KafkaPythonTransactions,
}


def read_to_end(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[list[bytes]]:
    """The values of each partition up to the last offset that the isolation level may see, read by librdkafka."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(
        {**settings, "isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 5}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"nothing more came from {topic}; read so far: {found}"
        error, partition = message.error(), message.partition()
        assert partition is not None
        if error is None:
            found[partition].append(message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(partition)
        else:
            raise KafkaException(error)
    consumer.close()
    return found


def last_stable_offset(admin: AdminClient, topic: str, partition: int = 0) -> int:
    """The offset below which every transaction has ended."""
    return _end_offset(admin, TopicPartition(topic, partition), IsolationLevel.READ_COMMITTED)


def high_watermark(admin: AdminClient, topic: str, partition: int = 0) -> int:
    """The end offset of the partition."""
    return _end_offset(admin, TopicPartition(topic, partition), IsolationLevel.READ_UNCOMMITTED)


def _end_offset(admin: AdminClient, partition: TopicPartition, isolation: IsolationLevel) -> int:
    asked = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation, request_timeout=120)
    return int(asked[partition].result(120).offset)


def read_settled(admin: AdminClient, bootstrap: str, topic: str, partitions: int = 1) -> list[list[bytes]]:
    """The committed values, once all markers are written: a commit is answered before its markers are."""

    def settled() -> bool:
        return all(
            last_stable_offset(admin, topic, partition) == high_watermark(admin, topic, partition)
            for partition in range(partitions)
        )

    wait_until(settled, f"the markers of {topic} are written", timeout_s=TIMEOUT_S)
    return read_to_end(bootstrap, topic, partitions, READ_COMMITTED)


def _aiokafka_committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async def run() -> list[bytes]:
        settings = {"isolation_level": READ_COMMITTED, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings) as consumer:
            consumer.assign([AioTopicPartition(topic, 0)])
            return [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(count)]

    return asyncio.run(run())


def _kafka_python_committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    settings = {"isolation_level": READ_COMMITTED, "auto_offset_reset": "earliest", "group_id": None}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **settings, consumer_timeout_ms=TIMEOUT_S * 1000)
    consumer.assign([PythonTopicPartition(topic, 0)])
    found = [record.value for _, record in zip(range(count), consumer, strict=False)]
    consumer.close()
    return found


def _confluent_committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    return read_to_end(bootstrap, topic, 1, READ_COMMITTED)[0][:count]


# Each library drops the records of aborted transactions itself, from what Fetch tells: so many of partition 0.
COMMITTED_READERS: dict[str, Callable[[str, str, int], Sequence[bytes]]] = {
    "confluent-kafka": _confluent_committed,
    "aiokafka": _aiokafka_committed,
    "kafka-python": _kafka_python_committed,
}
