"""`python -m bench.copier`: copy a topic with transactions and print the seconds that it took.

A process of its own, so that the client's work is the same for both brokers and shares nothing with the harness.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import PARTITIONS

SOURCE, SINK = "source", "sink"
TIMEOUT_S = 60.0


def copy(bootstrap: str, name: str, count: int, transaction_size: int) -> float:
    """Copy so many records from the start of the source, offsets and records in one transaction; returns seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 1})
    producer.init_transactions(TIMEOUT_S)
    consumer.assign([TopicPartition(SOURCE, partition, 0) for partition in range(PARTITIONS)])
    begin = time.perf_counter()
    copied = 0
    while copied < count:
        copied += _copy_some(consumer, producer, min(transaction_size, count - copied))
    seconds = time.perf_counter() - begin
    consumer.close()
    return seconds


def _copy_some(consumer: Consumer, producer: Producer, wanted: int) -> int:
    """Copy in one transaction what one call of the consumer gives."""
    messages = consumer.consume(wanted, timeout=TIMEOUT_S)
    if not messages:
        raise RuntimeError("the consumer stalled")
    producer.begin_transaction()
    for message in messages:
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
        producer.produce(SINK, message.value(), message.key(), message.partition() or 0)
    positions = consumer.position(consumer.assignment())
    moved = [position for position in positions if position.offset >= 0]
    producer.send_offsets_to_transaction(moved, consumer.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    return len(messages)


def main(arguments: list[str]) -> None:
    """Warm up on a part of the topic, then copy all of it: bootstrap servers, count, records per transaction."""
    bootstrap, count, transaction_size = arguments[0], int(arguments[1]), int(arguments[2])
    copy(bootstrap, "warm-up", count // 4, transaction_size)
    print(copy(bootstrap, "measured", count, transaction_size))


if __name__ == "__main__":
    main(sys.argv[1:])
