"""A producer under load that remembers what was acknowledged, and the reader that compares."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.nodes.process import PATIENCE_S

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

QUEUE_LIMIT = 2000


class RecordedLoad:
    """Sends increasing numbers to the partitions of a topic from its own thread until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, settings: dict[str, object]) -> None:
        """Prepare the producer; nothing is sent before start()."""
        limits = {"queue.buffering.max.messages": QUEUE_LIMIT, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, **limits, **settings})
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load-{topic}")
        self._sent = 0
        self.acknowledged: dict[tuple[int, int], int] = {}  # (partition, offset) -> number
        self.failed: list[tuple[int, KafkaError]] = []

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more and wait until every record is acknowledged or has failed."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(120) == 0, "records are neither acknowledged nor failed"

    @property
    def acknowledged_count(self) -> int:
        """How many records were acknowledged so far."""
        return len(self.acknowledged)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if len(self._producer) >= QUEUE_LIMIT:
                self._producer.poll(0.01)
                continue
            number = self._sent
            value = b"%d" % number
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._delivered)
            self._sent += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        number = int(message.value() or b"-1")
        if error is not None:
            self.failed.append((number, error))
            return
        place = (message.partition() or 0, message.offset() or 0)
        assert place not in self.acknowledged, f"{place} was given to {self.acknowledged[place]} and to {number}"
        self.acknowledged[place] = number


def read_numbers(bootstrap: str, topic: str, partition: int) -> dict[int, int]:
    """Everything in a partition as offset -> number."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        where = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(where, timeout=120)
        consumer.assign([TopicPartition(topic, partition, low)])
        found: dict[int, int] = {}
        while len(found) < high - low:
            # Returns as soon as all have come; a busy machine may need long for the first.
            messages = consumer.consume(min(high - low - len(found), 10_000), timeout=PATIENCE_S)
            for message in messages:
                assert message.error() is None, message.error()
                found[message.offset() or 0] = int(message.value() or b"-1")
            assert messages, f"only {len(found)} of {high - low} records came"
    finally:
        consumer.close()
    return found


def check_load(bootstrap: str, load: RecordedLoad, topic: str, partitions: int) -> None:
    """Every acknowledged record is at its offset, none is there twice, and the order is that of sending."""
    for partition in range(partitions):
        stored = read_numbers(bootstrap, topic, partition)
        promised = {offset: number for (where, offset), number in load.acknowledged.items() if where == partition}
        lost = {offset: number for offset, number in promised.items() if stored.get(offset) != number}
        assert not lost, f"{topic}-{partition}: {len(lost)} of {len(promised)} acknowledged records are not there"
        numbers = [stored[offset] for offset in sorted(stored)]
        assert len(set(numbers)) == len(numbers), f"{topic}-{partition} holds records twice"
        assert numbers == sorted(numbers), f"{topic}-{partition} is out of order"
