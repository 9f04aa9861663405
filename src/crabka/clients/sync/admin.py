"""The admin client with blocking calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import (
    ActiveProducer,
    ConfigChange,
    ConfigOwner,
    ConfigValue,
    CreatedTopic,
    NewTopic,
)
from crabka.clients.cluster.cluster import Bootstrap, Cluster, ClusterSettings
from crabka.clients.cluster.metadata import TopicMetadata
from crabka.clients.cluster.metadata_sources import BrokerMetadata, ControllerMetadata
from crabka.clients.fetcher.offsets import OffsetAndTimestamp
from crabka.clients.sync.admin_parts import SyncClusterAdmin, SyncGroupAdmin, SyncLogDirAdmin, SyncReplicaAdmin
from crabka.clients.sync.session import SyncSession
from crabka.ids import TopicPartition


class SyncAdmin:
    """`Admin` with blocking calls; see there for what each does and raises.

    With `of_controllers` the bootstrap addresses are those of controllers, and requests go to them alone (KIP-919).
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        timeout_ms: int = 30_000,
        cluster_settings: ClusterSettings | None = None,
        of_controllers: bool = False,
    ) -> None:
        source = ControllerMetadata() if of_controllers else BrokerMetadata()
        self._session = SyncSession(
            lambda runtime: Cluster(runtime, bootstrap, cluster_settings, source),
            lambda cluster: Admin(cluster, timeout_ms),
        )
        self._run = self._session.run
        self._client = self._session.client
        self.cluster = SyncClusterAdmin(self._session)
        self.replicas = SyncReplicaAdmin(self._session)
        self.log_dirs = SyncLogDirAdmin(self._session)
        self.groups = SyncGroupAdmin(self._session)

    def close(self) -> None:
        """Close the client and its connections. Closing twice is allowed."""
        self._session.close()

    def __enter__(self) -> SyncAdmin:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics."""
        return self._run(self._client.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics."""
        self._run(self._client.delete_topics(names))

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Raise the number of partitions."""
        self._run(self._client.create_partitions(counts))

    def list_topics(self) -> dict[str, TopicMetadata]:
        """Return all topics."""
        return self._run(self._client.list_topics())

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Return the metadata of topics."""
        return self._run(self._client.describe_topics(names))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records before offsets."""
        return self._run(self._client.delete_records(before))

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by timestamp or special position."""
        return self._run(self._client.list_offsets(timestamps, read_committed=read_committed))

    def describe_configs(
        self, resource: ConfigOwner, names: Sequence[str] | None = None, *, documentation: bool = False
    ) -> dict[str, ConfigValue]:
        """Return the configs of a resource."""
        return self._run(self._client.describe_configs(resource, names, documentation=documentation))

    def alter_configs(
        self, resource: ConfigOwner, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change configs of a resource."""
        self._run(self._client.alter_configs(resource, list(changes), validate_only=validate_only))

    def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the producers that partitions remember."""
        return self._run(self._client.describe_producers(list(partitions)))
