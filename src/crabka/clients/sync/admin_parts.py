"""The parts of `SyncAdmin` about nodes, replicas, log dirs and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ClusterDescription, FeatureRange, LogDirDescription
from crabka.clients.admin.cluster_types import DescribedQuorum, ElectionKind, ReplicaMove
from crabka.clients.admin.group_types import GroupDescription, GroupListing, GroupOffset
from crabka.clients.sync.session import SyncSession
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.kraft.voters import VoterEndpoint


class SyncClusterAdmin:
    """`Admin.cluster` with blocking calls."""

    def __init__(self, session: SyncSession[Admin]) -> None:
        self._run = session.run
        self._admin = session.client.cluster

    def describe(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return id, controller and brokers."""
        return self._run(self._admin.describe(include_fenced=include_fenced))

    def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker."""
        self._run(self._admin.unregister_broker(broker_id))

    def describe_quorum(self) -> DescribedQuorum:
        """Return leader, voters and observers of the metadata quorum."""
        return self._run(self._admin.describe_quorum())

    def add_raft_voter(
        self, voter_id: int, directory_id: UUID, endpoints: Sequence[VoterEndpoint], *, cluster_id: str | None = None
    ) -> None:
        """Make a controller a voter."""
        adding = self._admin.add_raft_voter(voter_id, directory_id, endpoints, cluster_id=cluster_id)
        self._run(adding)

    def remove_raft_voter(self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Remove a voter from the quorum."""
        self._run(self._admin.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id))

    def describe_features(self) -> dict[str, FeatureRange]:
        """Return supported and finalized features."""
        return self._run(self._admin.describe_features())

    def update_features(self, levels: Mapping[str, int], *, upgrade_type: int = 1, validate_only: bool = False) -> None:
        """Finalize feature levels."""
        self._run(self._admin.update_features(levels, upgrade_type=upgrade_type, validate_only=validate_only))


class SyncReplicaAdmin:
    """`Admin.replicas` with blocking calls."""

    def __init__(self, session: SyncSession[Admin]) -> None:
        self._run = session.run
        self._admin = session.client.replicas

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Start or cancel reassignments."""
        self._run(self._admin.reassign(targets))

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaMove]:
        """Return the reassignments in progress."""
        return self._run(self._admin.list_reassignments(partitions))

    def elect_leaders(
        self, election_type: ElectionKind, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OperationError | None]:
        """Elect leaders of partitions."""
        return self._run(self._admin.elect_leaders(election_type, partitions))


class SyncLogDirAdmin:
    """`Admin.log_dirs` with blocking calls."""

    def __init__(self, session: SyncSession[Admin]) -> None:
        self._run = session.run
        self._admin = session.client.log_dirs

    def describe(self, node_id: int, *, include_failed: bool = False) -> list[LogDirDescription]:
        """Return the log dirs of a broker with the replicas in them."""
        return self._run(self._admin.describe(node_id, include_failed=include_failed))

    def move_replicas(self, node_id: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start to move replicas to other log dirs of the same broker."""
        self._run(self._admin.move_replicas(node_id, targets))


class SyncGroupAdmin:
    """`Admin.groups` with blocking calls."""

    def __init__(self, session: SyncSession[Admin]) -> None:
        self._run = session.run
        self._admin = session.client.groups

    def list(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> Sequence[GroupListing]:
        """Return the groups of all brokers."""
        return self._run(self._admin.list(states=states, types=types))

    def describe(self, group_id: str) -> GroupDescription:
        """Return a group with its members."""
        return self._run(self._admin.describe(group_id))

    def list_offsets(self, group_id: str) -> dict[TopicPartition, GroupOffset]:
        """Return the committed offsets of a group."""
        return self._run(self._admin.list_offsets(group_id))

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members."""
        self._run(self._admin.alter_offsets(group_id, offsets))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group."""
        self._run(self._admin.delete_offsets(group_id, list(partitions)))

    def delete(self, group_id: str) -> None:
        """Delete a group with its offsets."""
        self._run(self._admin.delete(group_id))
