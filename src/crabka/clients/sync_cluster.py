"""The part of `SyncAdmin` about nodes, the quorum, replicas and log dirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from crabka.clients.admin_types import ClusterDescription, FeatureRange, LogDirDescription
from crabka.clients.cluster_types import DescribedQuorum, ElectionKind, ReplicaMove
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.kraft.voters import VoterEndpoint

if TYPE_CHECKING:
    from crabka.clients.admin import Admin
    from crabka.clients.sync import LoopThread


class SyncClusterAdmin:
    """Blocking calls over a loop thread and an admin client that the subclass owns."""

    _thread: LoopThread
    _client: Admin

    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return id, controller and brokers."""
        return self._thread.run(self._client.describe_cluster(include_fenced=include_fenced))

    def unregister_broker(self, broker_id: int) -> None:
        """Make the cluster forget a broker."""
        self._thread.run(self._client.unregister_broker(broker_id))

    def describe_quorum(self) -> DescribedQuorum:
        """Return leader, voters and observers of the metadata quorum."""
        return self._thread.run(self._client.describe_quorum())

    def add_raft_voter(
        self, voter_id: int, directory_id: UUID, endpoints: Sequence[VoterEndpoint], *, cluster_id: str | None = None
    ) -> None:
        """Make a controller a voter."""
        adding = self._client.add_raft_voter(voter_id, directory_id, endpoints, cluster_id=cluster_id)
        self._thread.run(adding)

    def remove_raft_voter(self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Take a voter out of the quorum."""
        self._thread.run(self._client.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id))

    def describe_features(self) -> dict[str, FeatureRange]:
        """Return supported and finalized features."""
        return self._thread.run(self._client.describe_features())

    def update_features(self, levels: Mapping[str, int], *, upgrade_type: int = 1, validate_only: bool = False) -> None:
        """Finalize feature levels."""
        self._thread.run(self._client.update_features(levels, upgrade_type=upgrade_type, validate_only=validate_only))

    def alter_partition_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin or cancel reassignments."""
        self._thread.run(self._client.alter_partition_reassignments(targets))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaMove]:
        """Return what is being moved."""
        return self._thread.run(self._client.list_partition_reassignments(partitions))

    def describe_log_dirs(self, node_id: int, *, include_failed: bool = False) -> list[LogDirDescription]:
        """Return the log dirs of a broker with the replicas in them."""
        return self._thread.run(self._client.describe_log_dirs(node_id, include_failed=include_failed))

    def alter_replica_log_dirs(self, node_id: int, targets: Mapping[TopicPartition, str]) -> None:
        """Begin to move replicas of a broker to other log dirs of it."""
        self._thread.run(self._client.alter_replica_log_dirs(node_id, targets))

    def elect_leaders(
        self, election_type: ElectionKind, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OperationError | None]:
        """Elect leaders of partitions."""
        return self._thread.run(self._client.elect_leaders(election_type, partitions))
