"""Idempotent producers with acks=all that write to every partition all the time and remember each acknowledgement.

Each record says its producer and its number within (producer, partition), so that the reader sees loss, repetition and
disorder. When each acknowledgement came is kept per partition: the longest silence around a fault is how
long that partition was unavailable.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import KafkaError, Message

# Enough for the records of a long outage: a full queue would stop the other partitions too.
QUEUE_LIMIT = 200_000
# The broker knows a repeated batch by its number and may have forgotten where it put it.
UNTOLD = -1
QUICK_CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "topic.metadata.refresh.interval.ms": 5000,
    "log_level": 0,
}
PRODUCER_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 2,
    # A leader that is frozen or cut off does not answer: ask the next one soon. Nothing may ever be given up.
    "request.timeout.ms": 3000,
    "socket.timeout.ms": 6000,
    "message.timeout.ms": 0,
    "queue.buffering.max.messages": QUEUE_LIMIT,
}


class SequencedProducer:
    """One producer in a thread of its own, at a steady rate, round robin over the partitions."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, name: str, rate: float) -> None:
        """Prepare; nothing is sent before start(). The rate is records per second in each partition."""
        self.name = name
        self._producer = Producer({"bootstrap.servers": bootstrap, **QUICK_CLIENT, **PRODUCER_SETTINGS})
        self._topic = topic
        self._interval_s = 1 / rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{name}")
        self.sent = [0] * partitions
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(partitions)]  # number -> offset
        self.moments: list[list[float]] = [[] for _ in range(partitions)]  # of each acknowledgement
        self.failed: list[tuple[bytes, str]] = []

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, *, timeout_s: float = 120.0) -> None:
        """Send no more and wait until every record is acknowledged or has failed."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{left} records of producer {self.name} are neither acknowledged nor failed"

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            for partition in range(len(self.sent)):
                value = f"{self.name} {self.sent[partition]}".encode()
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self.sent[partition] += 1
            due += self._interval_s
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value() or b""
        if error is not None:
            self.failed.append((value, str(error)))
            return
        partition, offset = message.partition() or 0, message.offset()
        self.acknowledged[partition][int(value.split()[1])] = UNTOLD if offset is None else offset
        self.moments[partition].append(time.monotonic())


class SequencedLoad:
    """Several producers on one topic."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        producers: int = 2,
        rate: float = 25.0,
        prefix: str = "p",
    ) -> None:
        """Prepare the producers; their names begin with the prefix."""
        self.topic = topic
        self.partitions = partitions
        self.producers = [
            SequencedProducer(bootstrap, topic, partitions, name=f"{prefix}{number}", rate=rate)
            for number in range(producers)
        ]

    def start(self) -> None:
        """Begin to send."""
        for producer in self.producers:
            producer.start()

    def stop(self) -> None:
        """Send no more and wait for all acknowledgements."""
        for producer in self.producers:
            producer.stop()

    @property
    def acknowledged_count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(len(offsets) for producer in self.producers for offsets in producer.acknowledged)

    def heard_since(self, moment: float) -> bool:
        """Whether every partition acknowledged something after that moment."""
        return all(
            any(producer.moments[partition][-1:] > [moment] for producer in self.producers)
            for partition in range(self.partitions)
        )

    def unavailable_s(self, begin: float, end: float) -> float:
        """The longest time in which some partition acknowledged nothing, of those that touch begin…end."""
        silences = []
        for partition in range(self.partitions):
            merged = sorted(moment for producer in self.producers for moment in producer.moments[partition])
            silences.append(longest_silence(merged, begin, end))
        return max(silences)

    def check(self, stored: Sequence[Sequence[tuple[int, bytes]]]) -> None:
        """Nothing acknowledged is lost, nothing is there twice, each producer's records are in the order of sending.

        `stored` has (offset, value) of every record of each partition. All producers must have stopped.
        """
        for producer in self.producers:
            assert not producer.failed, f"{producer.name} gave up {len(producer.failed)}: {producer.failed[:3]}"
        for partition, records in enumerate(stored):
            found: dict[str, dict[int, int]] = defaultdict(dict)
            for offset, value in records:
                name, number = value.decode().split()
                found[name][offset] = int(number)
            for producer in self.producers:
                where = f"{producer.name} in {self.topic}-{partition}"
                check_numbers(where, producer.sent[partition], producer.acknowledged[partition], found[producer.name])


def check_numbers(where: str, sent: int, acknowledged: dict[int, int], found: dict[int, int]) -> None:
    """Compare what one producer was promised for one partition (number -> offset) with what is there (the reverse)."""
    numbers = [found[offset] for offset in sorted(found)]
    lost = sorted(acknowledged.keys() - set(numbers))
    assert not lost, f"{where}: {len(lost)} of {len(acknowledged)} acknowledged records are not there: {lost[:5]}"
    reported = {number: offset for number, offset in acknowledged.items() if offset != UNTOLD}
    moved = {number: offset for number, offset in reported.items() if found.get(offset) != number}
    assert not moved, f"{where}: {len(moved)} records are not at the offset that was reported: {_some(moved)}"
    assert len(set(numbers)) == len(numbers), f"{where}: records are there twice: {_repeated(numbers)}"
    assert numbers == sorted(numbers), f"{where}: out of order: {_disorder(numbers)}"
    assert numbers == list(range(sent)), f"{where}: {len(numbers)} of {sent} records are there"


def longest_silence(moments: Sequence[float], begin: float, end: float) -> float:
    """The longest distance between neighbours, of those pairs that touch begin…end; moments are sorted.

    If nothing came after the end, the end itself ends the last silence.
    """
    first = max(bisect_left(moments, begin) - 1, 0)
    last = min(bisect_right(moments, end) + 1, len(moments))
    near = [*moments[first:last], *([end] if last == len(moments) else [])]
    return max((after - before for before, after in pairwise(near)), default=end - begin)


def _some(numbers: dict[int, int]) -> list[tuple[int, int]]:
    return sorted(numbers.items())[:5]


def _repeated(numbers: Iterable[int]) -> list[int]:
    seen: set[int] = set()
    return [number for number in numbers if number in seen or seen.add(number)][:5]  # type: ignore[func-returns-value]


def _disorder(numbers: Sequence[int]) -> list[tuple[int, int]]:
    return [(before, after) for before, after in pairwise(numbers) if after < before][:5]
