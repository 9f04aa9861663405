"""Blocking requests to a cluster: topics, offsets, leader epochs, configs and raw fetches.

Drivers and executors have no event loop, so a session runs one in a thread, and closes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.clients.cluster.cluster import Cluster, ClusterSettings, means_stale_metadata
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd, epoch_ends
from crabka.clients.fetcher.messages import FetchAnswer, FetchLimits, FetchTarget, fetch_request, read_answers
from crabka.clients.fetcher.offsets import list_offsets
from crabka.clients.security.security import ClientSecurity
from crabka.clients.sync.session import LoopThread
from crabka.errors import ConfigError, OperationError, WireError
from crabka.ids import ZERO_UUID, TopicPartition, uuid_to_text
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime import real_runtime
from crabka.spark.errors import TopicChangedError

if TYPE_CHECKING:
    from crabka.clients.cluster.metadata import TopicMetadata

T = TypeVar("T")
_CLIENT_ID: Final = "crabka-spark"
_FETCH_CHANNEL: Final = "fetch"
_METADATA_TIMEOUT_MS: Final = 30_000


class BrokerSession:
    """A connection to a cluster; a context manager. Methods raise OperationError and ClientNetworkError."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        """`properties` are those of Kafka's clients. Raises ConfigError."""
        connection = ConnectionSettings(
            client_id=properties.get("client.id", _CLIENT_ID),
            request_timeout_ms=_timeout_ms(properties),
            security=ClientSecurity.from_properties(properties),
        )
        settings = ClusterSettings(connection, metadata_timeout_ms=_METADATA_TIMEOUT_MS)
        self._runtime = real_runtime()
        self._thread = LoopThread("crabka-spark")

        async def make() -> Cluster:
            return Cluster(self._runtime, bootstrap, settings)

        try:
            self._cluster = self._thread.run(make())
        except BaseException:
            self._stop_threads()
            raise

    def __enter__(self) -> BrokerSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread."""
        try:
            self._thread.run(self._cluster.close())
        finally:
            self._stop_threads()

    def run(self, use: Callable[[Cluster], Awaitable[T]]) -> T:
        """Run a coroutine with the cluster."""

        async def call() -> T:
            return await use(self._cluster)

        return self._thread.run(call())

    def topics(self) -> Mapping[str, TopicMetadata]:
        """Return all topics, as they are now."""

        async def ask(cluster: Cluster) -> Mapping[str, TopicMetadata]:
            return (await cluster.refresh(None)).topics

        return self.run(ask)

    def offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        """Return the first offset at or after a timestamp, or at a special position; -1 where there is none."""
        if not timestamps:
            return {}

        async def ask(cluster: Cluster) -> dict[TopicPartition, int]:
            found = await list_offsets(cluster, timestamps, read_committed=read_committed)
            return {partition: answer.offset for partition, answer in found.items()}

        return self.run(ask)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochEnd]:
        """Return where the leaders of partitions say that epochs end (KIP-320)."""
        return self.run(lambda cluster: epoch_ends(cluster, epochs))

    def topic_configs(self, topic: str, names: Iterable[str]) -> dict[str, str | None]:
        """Return settings of a topic; those that the broker does not return are missing."""
        return self._configs(ConfigOwner(ResourceType.TOPIC, topic), list(names))

    def broker_configs(self) -> dict[str, str | None]:
        """Return the settings of some broker; sensitive ones are None."""

        async def some_broker(cluster: Cluster) -> int:
            return min((await cluster.refresh(())).brokers)

        return self._configs(ConfigOwner(ResourceType.BROKER, str(self.run(some_broker))), None)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets for a group without members."""
        self.run(lambda cluster: Admin(cluster).groups.alter_offsets(group, offsets))

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        limits: FetchLimits,
        timeout_ms: int | None,
        *,
        topic_id: str | None = None,
    ) -> FetchAnswer:
        """Fetch raw batches of one partition from its leader; without a timeout in that of the client's properties.

        If the answer says that metadata is old, the metadata is dropped and the answer is returned without records; the
        caller may fetch again. Raises ClientNetworkError if the leader cannot be reached, and TopicChangedError if the
        topic does not have the given id any more.
        """

        async def ask(cluster: Cluster) -> FetchAnswer:
            leader = await cluster.partition(partition)
            topic_ids = {partition.topic: (await cluster.topic(partition.topic)).topic_id}
            _require_id(partition.topic, topic_ids[partition.topic], topic_id)
            request = fetch_request([FetchTarget(partition, offset, leader.leader_epoch)], limits, topic_ids)
            try:
                connection = await cluster.connection(leader.leader, _FETCH_CHANNEL)
                response = await connection.request(
                    ApiKey.FETCH, request.body, timeout_ms, max_version=request.max_version
                )
            except (ClientNetworkError, WireError):
                cluster.invalidate(partition.topic)
                raise
            if response.error_code is not ErrorCode.none:
                raise OperationError(response.error_code, f"fetch of {partition}: {response.error_code.name}")
            answer = read_answers(response, topic_ids)[partition]
            if means_stale_metadata(answer.error_code):
                cluster.invalidate(partition.topic)
            return answer

        return self.run(ask)

    def _configs(self, owner: ConfigOwner, names: list[str] | None) -> dict[str, str | None]:
        found = self.run(lambda cluster: Admin(cluster).describe_configs(owner, names))
        return {name: value.value for name, value in found.items()}

    def _stop_threads(self) -> None:
        self._thread.close()
        self._runtime.threads.close()


def _require_id(topic: str, found: uuid.UUID, wanted: str | None) -> None:
    if wanted is not None and found != ZERO_UUID and uuid_to_text(found) != wanted:
        raise TopicChangedError(f"the topic {topic} was deleted and created anew: its id is no longer {wanted}")


def _timeout_ms(properties: Mapping[str, str]) -> int:
    text = properties.get("request.timeout.ms", "30000").strip()
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"kafka.request.timeout.ms is a positive number, not {text}")
    return int(text)
