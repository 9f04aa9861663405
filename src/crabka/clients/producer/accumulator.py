"""Records that wait to be sent, collected into batches per partition, and the order of their retries.

A partition's batches have consecutive sequences (KIP-98). A few are in flight at a time. When one fails and is
retriable, the partition sends nothing until all its batches in flight are settled, and then retries the failed ones in
their old order. So the broker never sees a sequence before its predecessor. Time is an argument; the sender sends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from crabka.ids import TopicPartition
from crabka.records.builder import build_batch
from crabka.records.header import HEADER_SIZE, NO_SEQUENCE, add_sequence
from crabka.records.record import Headers, Record

RECORD_OVERHEAD_BYTES = 21
"""Upper bound of a record's own lengths, deltas and attributes."""
HEADER_OVERHEAD_BYTES = 10


class RecordMetadata(NamedTuple):
    """The position of a delivered record; `offset` is -1 without one (acks=0, old duplicates)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerIdentity(NamedTuple):
    """Producer id and epoch."""

    producer_id: int
    producer_epoch: int


ANONYMOUS = ProducerIdentity(-1, -1)


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return how many bytes a record takes at most, before compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, header_value in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(header_value or b"")
    return size


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """Records of one partition that are sent together."""

    partition: TopicPartition
    created_ms: int
    deadline_ms: int
    records: list[Record] = field(default_factory=list)
    deliveries: list[asyncio.Future[RecordMetadata]] = field(default_factory=list)
    size_bytes: int = HEADER_SIZE
    is_full: bool = False
    base_sequence: int = NO_SEQUENCE
    encoded: bytes | None = None
    # True once every delivery has its result.
    is_settled: bool = False
    # Position in the order in which the partition's batches were first sent.
    flight_number: int = -1

    def append(self, record: Record, size: int, delivery: asyncio.Future[RecordMetadata]) -> None:
        """Add a record; the caller has checked that it fits."""
        self.records.append(record)
        self.deliveries.append(delivery)
        self.size_bytes += size

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        """Resolve all deliveries."""
        self.is_settled = True
        topic, partition = self.partition
        for index, (record, delivery) in enumerate(zip(self.records, self.deliveries, strict=True)):
            if not delivery.done():
                offset = base_offset + index if base_offset >= 0 else -1
                timestamp = record.timestamp if log_append_time_ms < 0 else log_append_time_ms
                delivery.set_result(RecordMetadata(topic, partition, offset, timestamp))

    def fail(self, error: Exception) -> None:
        """Fail all deliveries."""
        self.is_settled = True
        for delivery in self.deliveries:
            if not delivery.done():
                delivery.set_exception(error)


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The batches of one partition, oldest first."""

    partition: TopicPartition
    waiting: deque[ProducerBatch] = field(default_factory=deque)
    in_flight: list[ProducerBatch] = field(default_factory=list)
    to_retry: list[ProducerBatch] = field(default_factory=list)
    is_transactional: bool = False
    identity: ProducerIdentity | None = None
    next_sequence: int = 0
    blocked_until_ms: int = 0
    flight_count: int = 0
    # The broker that the batches in flight were sent to.
    flight_node: int = -1
    # A batch is lost: its sequence will never arrive, so later ones need a new identity.
    has_gap: bool = False

    def unsettled(self) -> list[ProducerBatch]:
        """Return the batches that are not delivered yet."""
        return [*self.in_flight, *self.to_retry, *self.waiting]

    def ready_at_ms(self, linger_ms: int) -> int | None:
        """Return when the oldest waiting batch may be sent, None if none may."""
        if not self.waiting or self.to_retry or self.has_gap:
            return None
        head = self.waiting[0]
        at_ms = (
            head.created_ms if head.is_full or head.encoded or len(self.waiting) > 1 else head.created_ms + linger_ms
        )
        return max(at_ms, self.blocked_until_ms)

    def may_go_to(self, node_id: int) -> bool:
        """Return whether a batch may be sent to a broker now.

        Not while older ones are in flight to another broker, nor while the very first one is in flight: a leader that
        does not know the producer accepts any sequence, and would then refuse the older ones.
        """
        if not self.in_flight:
            return True
        return self.flight_node == node_id and all(batch.base_sequence != 0 for batch in self.in_flight)

    def take(self, codec: int, level: int | None) -> ProducerBatch:
        """Move the oldest batch into flight, encoded with the next sequence. Needs an identity."""
        batch = self.waiting.popleft()
        self.in_flight.append(batch)
        if batch.flight_number < 0:
            batch.flight_number = self.flight_count
            self.flight_count += 1
        if batch.encoded is None:
            identity = self.identity or ANONYMOUS
            if identity.producer_id >= 0:
                batch.base_sequence = self.next_sequence
                self.next_sequence = add_sequence(self.next_sequence, len(batch.records))
            batch.encoded = build_batch(
                batch.records,
                codec=codec,
                level=level,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=batch.base_sequence,
                transactional=self.is_transactional,
            )
        return batch

    def settle(self, batch: ProducerBatch, *, retry: bool = False, lost: bool = False) -> None:
        """Take a batch out of flight: delivered, to be retried, or lost."""
        self.in_flight.remove(batch)
        if retry:
            self.to_retry.append(batch)
        if lost:
            self.has_gap = True

    def resume(self, blocked_until_ms: int) -> bool:
        """Once nothing is in flight, put failed batches back to the front; return whether a new identity is needed."""
        if self.in_flight or not (self.to_retry or self.has_gap):
            return False
        if self.to_retry:
            self.blocked_until_ms = blocked_until_ms
        # Batches entered flight in the order of their sequences; failures may arrive in any order.
        self.to_retry.sort(key=lambda batch: batch.flight_number)
        self.waiting.extendleft(reversed(self.to_retry))
        self.to_retry.clear()
        if not self.has_gap:
            return False
        self.has_gap = False
        self.identity = None
        self.next_sequence = 0
        for waiting in self.waiting:
            waiting.encoded = None
            waiting.base_sequence = NO_SEQUENCE
        return True

    def drop_unsent(self) -> list[ProducerBatch]:
        """Remove and return what is not in flight."""
        dropped = [*self.to_retry, *self.waiting]
        self.to_retry.clear()
        self.waiting.clear()
        return dropped

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return the waiting batches after their deadline."""
        late = [batch for batch in self.waiting if batch.deadline_ms <= now_ms]
        for batch in late:
            self.waiting.remove(batch)
            # A batch that was sent may be in the log or not: later ones cannot keep their sequences.
            self.has_gap = self.has_gap or batch.base_sequence != NO_SEQUENCE
        return late
