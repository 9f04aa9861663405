"""What the clients do: the same librdkafka calls for both brokers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.brokers import PARTITIONS, TOPIC

QUEUE = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20}


@dataclass(slots=True)
class Deliveries:
    """Counts acknowledged records and keeps the first error."""

    count: int = 0
    error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        """Note one delivery report."""
        self.count += error is None
        self.error = self.error or error

    def check(self, expected: int) -> None:
        """Raise unless every record was acknowledged."""
        if self.count != expected:
            raise RuntimeError(f"only {self.count} of {expected} records were acknowledged: {self.error}")


def produce_single(bootstrap: str, count: int) -> float:
    """Send 100-byte records one per request, several requests in flight; returns seconds."""
    one = {"acks": "1", "linger.ms": 0, "batch.num.messages": 1}
    return _produce(Producer({"bootstrap.servers": bootstrap, **one, **QUEUE}), count, 100, run_length=1)


def produce_batched(bootstrap: str, count: int, size: int, *, topic: str = TOPIC) -> float:
    """Send records in large batches; returns seconds."""
    large = {"acks": "1", "linger.ms": 5, "batch.size": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, **large, **QUEUE})
    return _produce(producer, count, size, run_length=1000, topic=topic)


def _produce(producer: Producer, count: int, size: int, *, run_length: int, topic: str = TOPIC) -> float:
    value = os.urandom(size)
    delivered = Deliveries()
    begin = time.perf_counter()
    for number in range(count):
        partition = number // run_length % PARTITIONS
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(120)
    seconds = time.perf_counter() - begin
    delivered.check(count)
    return seconds


def consume_all(bootstrap: str, count: int, starts: list[int]) -> float:
    """Read so many records from the given offsets of the partitions; returns seconds."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    large = {"fetch.message.max.bytes": 1 << 20, "queued.max.messages.kbytes": 1 << 19}
    consumer = Consumer({**settings, **large})
    begin = time.perf_counter()
    consumer.assign([TopicPartition(TOPIC, partition, start) for partition, start in enumerate(starts)])
    for _ in arriving(consumer, count, at_once=10_000, timeout_s=20):
        pass
    seconds = time.perf_counter() - begin
    consumer.close()
    return seconds


def arriving(consumer: Consumer, count: int, *, at_once: int, timeout_s: float) -> Iterator[list[Message]]:
    """Yield so many records of an assigned consumer as they come; raises RuntimeError if one fails or none comes."""
    seen = 0
    while seen < count:
        messages = consumer.consume(at_once, timeout=timeout_s)
        if not messages:
            raise RuntimeError(f"the consumer stalled after {seen} of {count} records")
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
        seen += len(messages)
        yield messages


def end_offsets(bootstrap: str) -> list[int]:
    """The end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=30)[1]
        for partition in range(PARTITIONS)
    ]
    consumer.close()
    return ends


def produce_paced(bootstrap: str, rate: int, seconds: float, *, linger_ms: int = 0) -> list[float]:
    """Send 100-byte records at a steady rate with acks=all; returns each one's latency in milliseconds."""
    return [latency for _sent, latency in produce_timed(bootstrap, rate, seconds, linger_ms=linger_ms)]


def produce_timed(bootstrap: str, rate: int, seconds: float, *, linger_ms: int = 0) -> list[tuple[float, float]]:
    """Do the same; returns when each record was sent, in seconds since the first, and its latency."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": linger_ms, **QUEUE})
    latencies: list[tuple[float, float]] = []
    value = os.urandom(100)

    def send(number: int) -> None:
        sent = time.perf_counter()

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise RuntimeError(str(error))
            latencies.append((sent - begin, (time.perf_counter() - sent) * 1000))

        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=delivered)

    begin = time.perf_counter()
    number = 0
    while (elapsed := time.perf_counter() - begin) < seconds:
        for _ in range(int(elapsed * rate) - number):
            send(number)
            number += 1
        producer.poll(0.0005)
    producer.flush(60)
    if len(latencies) != number:
        raise RuntimeError(f"only {len(latencies)} of {number} records were acknowledged")
    return latencies


def wait_first_acknowledged(bootstrap: str, topic: str, timeout_s: float = 300, *, partition: int = 0) -> None:
    """Send one record to a node that may not listen yet, and wait for its acknowledgement."""
    quick = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 20, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, "topic.metadata.refresh.fast.interval.ms": 20, **quick})
    delivered = Deliveries()
    producer.produce(topic, b"first", partition=partition, on_delivery=delivered)
    producer.flush(timeout_s)
    delivered.check(1)


def fill_log(bootstrap: str, topic: str, total_bytes: int) -> None:
    """Write one partition in batches of about 16 KiB."""
    batches = {"batch.size": 16_384, "batch.num.messages": 15}
    fill_partition(bootstrap, topic, os.urandom(1024), total_bytes // 1050, batches)


def fill_partition(bootstrap: str, topic: str, value: bytes, count: int, batches: Mapping[str, int]) -> None:
    """Write a value so many times to partition 0, in batches of the given settings."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "acks": "1", **batches, **QUEUE})
    delivered = Deliveries()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush(300)
    delivered.check(count)
