"""A memory cluster that can create the metadata topic, and a sink for what a log delivers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.remote_topic.event_log import EventBatch
from crabka.remote_topic.settings import METADATA_TOPIC
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clusters.memory import MemoryCluster, MemoryPartition


class RecordedEvents:
    """Keeps what is delivered, and what is taken back."""

    def __init__(self) -> None:
        self.batches: list[EventBatch] = []
        self.started_over: list[int] = []
        self.suspended: list[int] = []

    def deliver(self, batch: EventBatch) -> None:
        self.batches.append(batch)

    def suspend(self, partitions: Collection[int]) -> None:
        self.suspended += partitions

    def start_over(self, partitions: Collection[int]) -> None:
        self.started_over += partitions

    def values(self, partition: int) -> list[bytes | None]:
        """Return what came of a partition, in order."""
        return [value for batch in self.batches if batch.partition == partition for _, value in batch.records]

    def next_offset(self, partition: int) -> int:
        """Return how far a partition came."""
        return max((batch.next_offset for batch in self.batches if batch.partition == partition), default=0)


def append_values(partition: MemoryPartition, values: Iterable[bytes]) -> None:
    """Append a batch of records."""
    partition.append_raw(build_batch([Record(0, 1_000, None, value) for value in values]))


def serve_create_topics(cluster: MemoryCluster, *faults: ErrorCode) -> list[Any]:
    """Let a cluster create topics, after some refusals; return the list that gets the topics asked for."""
    asked: list[Any] = []
    open_faults = list(faults)

    def create(request: ReceivedRequest) -> Any:
        results = []
        for topic in request.body.topics:
            asked.append(topic)
            code = open_faults.pop(0) if open_faults else ErrorCode.none
            if code is ErrorCode.none:
                cluster.create_topic(topic.name, topic.num_partitions)
            results.append(
                request.types.new(
                    "CreatableTopicResult",
                    name=topic.name,
                    topic_id=cluster.topic_ids.get(topic.name),
                    error_code=code,
                    error_message=None,
                    num_partitions=topic.num_partitions,
                    replication_factor=topic.replication_factor,
                    configs=[],
                )
            )
        return request.types.message(throttle_time=0, topics=results)

    for broker in cluster.brokers.values():
        broker.answers[ApiKey.CREATE_TOPICS] = create
    return asked


def metadata_partitions(cluster: MemoryCluster, count: int) -> list[MemoryPartition]:
    """Create the metadata topic."""
    return cluster.create_topic(METADATA_TOPIC, count)
