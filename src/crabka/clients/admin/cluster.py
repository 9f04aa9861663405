"""Administration of a cluster's nodes: brokers, the metadata quorum (KIP-595, KIP-853), feature levels (KIP-584).

Brokers forward these calls to the active controller; with `ControllerMetadata` they go there directly (KIP-919).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import crabka
from crabka.clients.admin.admin_types import ClusterDescription, ConfigOwner, FeatureRange, ResourceType
from crabka.clients.admin.cluster_types import METADATA_TOPIC, DescribedQuorum, QuorumReplica
from crabka.clients.admin.requests import AdminRequests, check
from crabka.clients.cluster.connection import CLIENT_SOFTWARE_NAME
from crabka.clients.cluster.metadata import BrokerEndpoint, EndpointType
from crabka.ids import ZERO_UUID
from crabka.kraft.voters import VoterEndpoint
from crabka.protocol.apis import ApiKey, MessageTypes


class ClusterAdmin:
    """Calls about nodes and the quorum."""

    def __init__(self, requests: AdminRequests) -> None:
        self._ask = requests.ask
        self._cluster = requests.cluster
        self._timeout_ms = requests.timeout_ms

    async def describe(
        self, *, include_fenced: bool = False, endpoint_type: EndpointType | None = None
    ) -> ClusterDescription:
        """Return id, active controller and brokers; fenced brokers too if requested (KIP-1073). Raises OperationError.

        The endpoint type is that of the node that answers: controllers return controllers.
        """
        wanted = endpoint_type or self._cluster.endpoint_type

        def build(types: MessageTypes) -> Any:
            return types.message(
                include_cluster_authorized_operations=False,
                endpoint_type=int(wanted),
                include_fenced_brokers=include_fenced,
            )

        response = await self._ask(ApiKey.DESCRIBE_CLUSTER, build)
        check(response, "")
        nodes = tuple(BrokerEndpoint(b.broker_id, b.host, b.port, b.rack) for b in response.brokers)
        fenced = frozenset(int(b.broker_id) for b in response.brokers if getattr(b, "is_fenced", False))
        return ClusterDescription(response.cluster_id, response.controller_id, nodes, fenced)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker that will not come back. Raises OperationError."""
        response = await self._ask(ApiKey.UNREGISTER_BROKER, lambda types: types.message(broker_id=broker_id))
        check(response, f"broker {broker_id}")

    async def describe_quorum(self) -> DescribedQuorum:
        """Return leader, voters and observers of the metadata quorum. Raises OperationError."""

        def build(types: MessageTypes) -> Any:
            partition = types.new("PartitionData", partition_index=0)
            return types.message(topics=[types.new("TopicData", topic_name=METADATA_TOPIC, partitions=[partition])])

        response = await self._ask(ApiKey.DESCRIBE_QUORUM, build)
        check(response, "quorum")
        partition = response.topics[0].partitions[0]
        check(partition, "quorum")
        return DescribedQuorum(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            tuple(_replica(state) for state in partition.current_voters),
            tuple(_replica(state) for state in partition.observers),
            {int(node.node_id): _endpoints(node.listeners) for node in getattr(response, "nodes", ())},
        )

    async def add_raft_voter(
        self, voter_id: int, directory_id: UUID, endpoints: Sequence[VoterEndpoint], *, cluster_id: str | None = None
    ) -> None:
        """Make a running controller that has caught up a voter (KIP-853). Raises OperationError.

        request_timed_out means that it has not caught up or that another change is in progress.
        """

        def build(types: MessageTypes) -> Any:
            listeners = [types.new("Listener", name=e.name, host=e.host, port=e.port) for e in endpoints]
            return types.message(
                cluster_id=cluster_id,
                timeout=self._timeout_ms,
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=listeners,
                ack_when_committed=True,
            )

        check(await self._ask(ApiKey.ADD_RAFT_VOTER, build), f"voter {voter_id}")

    async def remove_raft_voter(self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Remove a voter from the quorum; id and directory id must both match (KIP-853). Raises OperationError."""

        def build(types: MessageTypes) -> Any:
            return types.message(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)

        check(await self._ask(ApiKey.REMOVE_RAFT_VOTER, build), f"voter {voter_id}")

    async def describe_features(self, node_id: int | None = None) -> dict[str, FeatureRange]:
        """Return the features that a node, or any, supports and the levels that the cluster has finalized."""
        resource = None if node_id is None else ConfigOwner(ResourceType.BROKER, str(node_id))

        def build(types: MessageTypes) -> Any:
            return types.message(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=crabka.__version__)

        response = await self._ask(ApiKey.API_VERSIONS, build, resource)
        check(response, "features")
        finalized = {entry.name: entry.max_version_level for entry in getattr(response, "finalized_features", ())}
        return {
            entry.name: FeatureRange(entry.min_version, entry.max_version, finalized.get(entry.name, -1))
            for entry in getattr(response, "supported_features", ())
        }

    async def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: int = 1, validate_only: bool = False
    ) -> None:
        """Finalize feature levels; upgrade type 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.

        Raises OperationError.
        """

        def build(types: MessageTypes) -> Any:
            updates = [
                types.new("FeatureUpdateKey", feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ]
            return types.message(timeout=self._timeout_ms, feature_updates=updates, validate_only=validate_only)

        check(await self._ask(ApiKey.UPDATE_FEATURES, build), "")


def _replica(state: Any) -> QuorumReplica:
    return QuorumReplica(
        int(state.replica_id),
        getattr(state, "replica_directory_id", None) or ZERO_UUID,
        state.log_end_offset,
        getattr(state, "last_fetch_timestamp", -1),
        getattr(state, "last_caught_up_timestamp", -1),
    )


def _endpoints(listeners: Any) -> tuple[VoterEndpoint, ...]:
    return tuple(VoterEndpoint(listener.name, listener.host, listener.port) for listener in listeners)
