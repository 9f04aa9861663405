"""All records of a producer that are not delivered yet: their partitions, batches and memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabka.clients.producer.accumulator import PartitionQueue, ProducerBatch, RecordMetadata
from crabka.clients.producer.partitioner import StickyPartitioner, partition_for_key
from crabka.records.header import HEADER_SIZE

if TYPE_CHECKING:
    import random

    from crabka.clients.cluster.metadata import TopicMetadata
    from crabka.clients.producer.settings import ProducerSettings
    from crabka.ids import TopicPartition
    from crabka.records.record import Record


class RecordBuffer:
    """The queues of all partitions. `size_bytes` counts records that wait or are in flight."""

    def __init__(self, settings: ProducerSettings, rng: random.Random) -> None:
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.size_bytes = 0
        self._settings = settings
        self._rng = rng
        self._sticky: dict[str, StickyPartitioner] = {}

    def has_room(self, size: int) -> bool:
        """Return whether a record fits; one larger than the buffer fits into an empty buffer."""
        return not self.size_bytes or self.size_bytes + size <= self._settings.buffer_bytes

    def choose_partition(self, topic: TopicMetadata, key: bytes | None, size: int) -> int:
        """Return the partition of a record: by its key, without a key the partition whose batch is being filled."""
        partitions = topic.partitions
        if key is not None:
            return partition_for_key(key, len(partitions))
        sticky = self._sticky.get(topic.name)
        if sticky is None:
            sticky = self._sticky[topic.name] = StickyPartitioner(self._rng, self._settings.batch_bytes)
        return sticky.choose([p.partition for p in partitions.values() if p.leader >= 0] or list(partitions), size)

    def append(
        self, partition: TopicPartition, record: Record, size: int, now_ms: int
    ) -> tuple[asyncio.Future[RecordMetadata], bool]:
        """Add a record; return a future for its offset, and whether a batch began or is full."""
        queue = self.queues.get(partition)
        if queue is None:
            is_transactional = self._settings.transactional_id is not None
            queue = self.queues[partition] = PartitionQueue(partition, is_transactional=is_transactional)
        batch = queue.waiting[-1] if queue.waiting else None
        is_news = False
        if batch is None or batch.is_full or batch.encoded or batch.size_bytes + size > self._settings.batch_bytes:
            if batch is not None:
                batch.is_full = True
            batch = ProducerBatch(partition, now_ms, now_ms + self._settings.delivery_timeout_ms)
            queue.waiting.append(batch)
            is_news = True
        delivery: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        # Callers may ignore a delivery: the loop must not report a failure that is not retrieved.
        delivery.add_done_callback(_retrieve)
        batch.append(record, size, delivery)
        if batch.size_bytes >= self._settings.batch_bytes:
            batch.is_full = is_news = True
        self.size_bytes += size
        return delivery, is_news

    def release(self, batch: ProducerBatch) -> None:
        """Release the memory of a batch that is delivered or lost."""
        self.size_bytes -= batch.size_bytes - HEADER_SIZE

    def unsettled(self) -> list[ProducerBatch]:
        """Return the batches that are not delivered yet."""
        return [batch for queue in self.queues.values() for batch in queue.unsettled()]

    def fail_all(self, error: Exception) -> None:
        """Fail and remove all batches."""
        for batch in self.unsettled():
            batch.fail(error)
        self.queues.clear()
        self.size_bytes = 0


def _retrieve(delivery: asyncio.Future[RecordMetadata]) -> None:
    if not delivery.cancelled():
        delivery.exception()
