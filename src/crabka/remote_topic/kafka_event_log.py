"""The metadata topic in a Kafka cluster, usually the one that the node itself belongs to.

Creates the topic unless it exists; an existing one is used as it is. Events go out through an idempotent producer
that waits for all replicas in sync, to explicit partitions; they come back through `event_fetcher`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.cluster.metadata import TopicMetadata
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.offsets import LATEST, list_offsets
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.errors import CrabkaError, InvariantError, OperationError
from crabka.ids import TopicPartition
from crabka.ports import Runtime
from crabka.protocol.error_codes import ErrorCode
from crabka.remote_topic.event_fetcher import EventFetcher, OnFailure
from crabka.remote_topic.event_log import EventSink
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings
from crabka.runtime.task_scope import TaskScope

CLIENT_ID_PREFIX: Final = "__remote_log_metadata_client_"
END_OFFSETS_TIMEOUT_MS: Final = 2_000
CREATE_TIMEOUT_MS: Final = 30_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaMetadataEventLogConfig:
    """Where the topic is, and how it is created."""

    bootstrap: str
    node_id: int
    topic: RemoteTopicSettings = field(default_factory=RemoteTopicSettings)
    cluster: ClusterSettings | None = None
    """How connections are made; None stands for the defaults."""
    security: ClientSecurity = UNPROTECTED

    def cluster_settings(self) -> ClusterSettings:
        """Return the settings of the connections."""
        if self.cluster is not None:
            return self.cluster
        return ClusterSettings(
            ConnectionSettings(client_id=f"{CLIENT_ID_PREFIX}{self.node_id}", security=self.security)
        )


class KafkaMetadataEventLog:
    """An event log over Kafka clients; make one with `open`."""

    def __init__(
        self,
        cluster: Cluster,
        topic: TopicMetadata,
        settings: RemoteTopicSettings,
        on_failure: OnFailure | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic_id = topic.topic_id
        self._partition_count = len(topic.partitions)
        # No caller waits longer for an event than this, so it is not delivered later.
        timeout_ms = max(1, settings.consume_wait_ms)
        self._producer_settings = ProducerSettings(linger_ms=0, delivery_timeout_ms=timeout_ms)
        self._producer = Producer(cluster, self._producer_settings)
        self._on_failure = on_failure
        self._scope = TaskScope(on_failure)
        self._sink: EventSink | None = None
        self._fetcher: EventFetcher | None = None

    @classmethod
    async def open(
        cls, runtime: Runtime, config: KafkaMetadataEventLogConfig, on_failure: OnFailure | None = None
    ) -> KafkaMetadataEventLog:
        """Connect, and create the topic unless it exists. Raises CrabkaError if the cluster cannot do that now.

        `on_failure` receives a bug in a background task; without it `close` raises what happened.
        """
        cluster = Cluster(runtime, config.bootstrap, config.cluster_settings())
        try:
            topic = await _ensure_topic(cluster, config.topic)
        except TimeoutError as error:
            await cluster.close()
            raise ClientNetworkError(f"{METADATA_TOPIC} was created, but no broker knows it yet") from error
        except BaseException:
            await cluster.close()
            raise
        return cls(cluster, topic, config.topic, on_failure)

    @property
    def topic_id(self) -> uuid.UUID:
        """The id of the topic, as of the last fetch."""
        return self._topic_id

    @property
    def partition_count(self) -> int:
        """How many partitions the topic had when it was first seen: a later change would move events."""
        return self._partition_count

    def start(self, sink: EventSink) -> None:
        """Begin to deliver what is consumed."""
        self._sink = sink
        self._fetcher = EventFetcher(self._cluster, METADATA_TOPIC, sink, self._is_our_topic, self._on_failure)
        self._scope.start(self._fetcher.run())

    async def publish(self, partition: int, value: bytes) -> int:
        """Store an event; return its offset. Raises OperationError, ClientNetworkError."""
        producer = self._producer
        try:
            delivery = await producer.send(METADATA_TOPIC, value, partition=partition)
            return (await delivery).offset
        except OperationError as error:
            if not error.retriable and not producer.buffered_bytes and producer is self._producer:
                # It may have given up for good: for example it has no right to get an id, which an operator can grant.
                self._producer = Producer(self._cluster, self._producer_settings)
                await producer.close(flush=False)
            raise

    def consume(self, partition: int, offset: int, leader_epoch: int = -1) -> None:
        """Deliver a partition from an offset on."""
        self._running_fetcher().consume(partition, offset, leader_epoch)

    def stop(self, partition: int) -> None:
        """Deliver a partition no more."""
        self._running_fetcher().stop(partition)

    async def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the high watermark of each partition whose leader responds."""
        numbers = list(partitions)
        found = await asyncio.gather(*(self._end_offset(number) for number in numbers))
        return {number: end for number, end in zip(numbers, found, strict=True) if end is not None}

    async def close(self) -> None:
        """Stop fetching and publishing, and close all connections. Closing twice is allowed."""
        await self._scope.close()
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._producer.close(flush=False)
        await self._cluster.close()

    async def _end_offset(self, number: int) -> int | None:
        partition = TopicPartition(METADATA_TOPIC, number)
        try:
            # A broker that does not respond must not delay the partitions of others for longer.
            async with asyncio.timeout(END_OFFSETS_TIMEOUT_MS / 1000):
                found = await list_offsets(self._cluster, {partition: LATEST})
        except (CrabkaError, TimeoutError) as error:
            reason = str(error) or f"no answer in {END_OFFSETS_TIMEOUT_MS} ms"
            logger.warning("the end of metadata partition %d is not known: %s", number, reason)
            return None
        return found[partition].offset

    def _is_our_topic(self, topic: TopicMetadata) -> bool:
        if topic.topic_id == self._topic_id:
            return True
        self._topic_id, self._partition_count = topic.topic_id, len(topic.partitions)
        if self._sink is not None:
            self._sink.start_over(range(self._partition_count))
        return False

    def _running_fetcher(self) -> EventFetcher:
        if self._fetcher is None:
            raise InvariantError("the event log is not started")
        return self._fetcher


async def _ensure_topic(cluster: Cluster, settings: RemoteTopicSettings) -> TopicMetadata:
    found = await _find_topic(cluster)
    if found is not None:
        return found
    topic = NewTopic(METADATA_TOPIC, settings.num_partitions, settings.replication_factor, settings.topic_configs())
    try:
        await Admin(cluster).create_topics([topic])
    except OperationError as error:
        # Another broker may have been faster.
        if error.error_code is not ErrorCode.topic_already_exists:
            raise
    backoff = cluster.backoff()
    async with asyncio.timeout(CREATE_TIMEOUT_MS / 1000):
        while True:
            found = await _find_topic(cluster)
            if found is not None:
                return found
            await asyncio.sleep(backoff.next_ms() / 1000)


async def _find_topic(cluster: Cluster) -> TopicMetadata | None:
    view = await cluster.refresh([METADATA_TOPIC])
    code = view.topic_errors.get(METADATA_TOPIC, ErrorCode.none)
    if code not in {ErrorCode.none, ErrorCode.unknown_topic_or_partition}:
        raise OperationError(code, f"topic {METADATA_TOPIC}: {code.name}")
    return view.topics.get(METADATA_TOPIC)
