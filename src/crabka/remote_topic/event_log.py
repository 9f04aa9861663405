"""The port of the log that metadata events go through, and one of them that lives in this process.

A log has a fixed number of partitions, each an ordered list of values with offsets. It does not know what the values
mean. All methods belong to the loop.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from crabka.ids import ZERO_UUID


class EventBatch(NamedTuple):
    """Values of one partition in the order of their offsets.

    Offsets may be missing where the log has something else than a value; `next_offset` is after all of them.
    `leader_epoch` is that of what stands before `next_offset`, -1 if it is not known. A batch without values confirms
    that all before `next_offset` is part of the log.
    """

    partition: int
    records: list[tuple[int, bytes | None]]
    next_offset: int
    leader_epoch: int = -1


class EventSink(Protocol):
    """The receiver of the events of a log; called on the loop."""

    def deliver(self, batch: EventBatch) -> None:
        """Take events; each follows the one before, but what was delivered already may come again.

        What was delivered before is confirmed: the leader that this comes from has it.
        """
        ...

    def suspend(self, partitions: Collection[int]) -> None:
        """Note that partitions have a new leader, which may lack what was delivered before.

        Nothing of it is reliable until `deliver` confirms it or `start_over` revokes it.
        """
        ...

    def start_over(self, partitions: Collection[int]) -> None:
        """Note that partitions have another history now: what was delivered is void, all comes from offset 0."""
        ...


class MetadataEventLog(Protocol):
    """Stores events and delivers them. Methods raise CrabkaError for what the log cannot do now."""

    @property
    def topic_id(self) -> uuid.UUID:
        """The id of the topic; another one means another history."""
        ...

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, whatever the settings say."""
        ...

    def start(self, sink: EventSink) -> None:
        """Begin to deliver what is consumed."""
        ...

    async def publish(self, partition: int, value: bytes) -> int:
        """Store a value so that no crash takes it back; return its offset."""
        ...

    def consume(self, partition: int, offset: int, leader_epoch: int = -1) -> None:
        """Deliver a partition from an offset on, until `stop` is called; failures are retried for ever.

        `leader_epoch` is that of the event before the offset, by which the log notices another history; -1 if it is
        not known. The first delivery confirms the place, with or without events.
        """
        ...

    def stop(self, partition: int) -> None:
        """Deliver a partition no more."""
        ...

    async def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end offset of each partition whose leader responds now."""
        ...

    async def close(self) -> None:
        """Deliver nothing more and close connections."""
        ...


class InProcessMetadataTopic:
    """The values that event logs of several brokers in one process share."""

    def __init__(self, partition_count: int = 50, topic_id: uuid.UUID = ZERO_UUID) -> None:
        self.topic_id = topic_id
        self.values: list[list[bytes | None]] = [[] for _ in range(partition_count)]
        self._readers: list[InProcessMetadataEventLog] = []

    def append(self, partition: int, value: bytes | None) -> int:
        """Store a value and notify all readers; return its offset."""
        self.values[partition].append(value)
        for reader in self._readers:
            reader.wake()
        return len(self.values[partition]) - 1

    def attach(self, reader: InProcessMetadataEventLog) -> None:
        """Add a reader."""
        self._readers.append(reader)

    def detach(self, reader: InProcessMetadataEventLog) -> None:
        """Drop a reader."""
        if reader in self._readers:
            self._readers.remove(reader)


class InProcessMetadataEventLog:
    """A log in memory, for tests and for simulations without a broker below.

    While `is_delivering` is False nothing is delivered, as from a broker that does not respond.
    """

    BATCH_RECORDS = 100

    def __init__(self, topic: InProcessMetadataTopic) -> None:
        self._topic = topic
        self._sink: EventSink | None = None
        self._positions: dict[int, int] = {}
        self._unconfirmed: set[int] = set()
        self._wakeup: asyncio.Handle | None = None
        self._is_delivering = True

    @property
    def topic_id(self) -> uuid.UUID:
        """The id of the shared topic."""
        return self._topic.topic_id

    @property
    def partition_count(self) -> int:
        """How many partitions the shared topic has."""
        return len(self._topic.values)

    @property
    def is_delivering(self) -> bool:
        """Whether events reach the sink."""
        return self._is_delivering

    @is_delivering.setter
    def is_delivering(self, value: bool) -> None:
        self._is_delivering = value
        self.wake()

    def start(self, sink: EventSink) -> None:
        """Begin to deliver what is consumed."""
        self._sink = sink
        self._topic.attach(self)

    async def publish(self, partition: int, value: bytes) -> int:
        """Store a value; return its offset."""
        await asyncio.sleep(0)
        return self._topic.append(partition, value)

    def consume(self, partition: int, offset: int, leader_epoch: int = -1) -> None:  # noqa: ARG002 - one history
        """Deliver a partition from an offset on."""
        self._positions[partition] = offset
        self._unconfirmed.add(partition)
        self.wake()

    def stop(self, partition: int) -> None:
        """Deliver a partition no more."""
        self._positions.pop(partition, None)

    async def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the number of values of each partition."""
        await asyncio.sleep(0)
        return {partition: len(self._topic.values[partition]) for partition in partitions}

    async def close(self) -> None:
        """Deliver nothing more."""
        self._topic.detach(self)
        self._sink = None
        self._positions.clear()
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def wake(self) -> None:
        """Deliver in the next turn of the loop."""
        if self._wakeup is None and self._sink is not None and self._is_delivering:
            self._wakeup = asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._wakeup = None
        if self._sink is None or not self._is_delivering:
            return
        for partition, position in list(self._positions.items()):
            values = self._topic.values[partition][position : position + self.BATCH_RECORDS]
            if values or partition in self._unconfirmed:
                self._unconfirmed.discard(partition)
                self._positions[partition] = end = position + len(values)
                records = list(zip(range(position, end), values, strict=True))
                self._sink.deliver(EventBatch(partition, records, end))
                self.wake()
