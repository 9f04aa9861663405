"""Administration of replicas: reassignments (KIP-455) and elections (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crabka.clients.admin.cluster_types import ElectionKind, ReplicaMove
from crabka.clients.admin.requests import AdminRequests, check
from crabka.clients.cluster.leader_requests import by_topic
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode


class ReplicaAdmin:
    """Calls about reassignments and elections."""

    def __init__(self, requests: AdminRequests) -> None:
        self._ask = requests.ask
        self._timeout_ms = requests.timeout_ms

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Start to move partitions to other replicas; None cancels a reassignment.

        All partitions are processed; the first error is raised. Raises OperationError (invalid_replica_assignment,
        no_reassignment_in_progress, unknown_topic_or_partition, ...).
        """

        def build(types: MessageTypes) -> Any:
            topics = [
                types.new("ReassignableTopic", name=topic, partitions=[entry(types, topic, index) for index in indexes])
                for topic, indexes in by_topic(targets).items()
            ]
            return types.message(timeout=self._timeout_ms, allow_replication_factor_change=True, topics=topics)

        def entry(types: MessageTypes, topic: str, index: int) -> Any:
            replicas = targets[TopicPartition(topic, index)]
            return types.new("ReassignablePartition", partition_index=index, replicas=replicas)

        response = await self._ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, build)
        check(response, "")
        for topic in response.responses:
            for result in topic.partitions:
                check(result, f"{topic.name}-{result.partition_index}")

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaMove]:
        """Return the reassignments in progress, of all or some partitions. Raises OperationError."""
        wanted = None if partitions is None else by_topic(partitions)

        def build(types: MessageTypes) -> Any:
            topics = None
            if wanted is not None:
                topics = [
                    types.new("ListPartitionReassignmentsTopics", name=topic, partition_indexes=indexes)
                    for topic, indexes in wanted.items()
                ]
            return types.message(timeout=self._timeout_ms, topics=topics)

        response = await self._ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, build)
        check(response, "")
        return {
            TopicPartition(topic.name, entry.partition_index): ReplicaMove(
                tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    async def elect_leaders(
        self, election_type: ElectionKind, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OperationError | None]:
        """Elect leaders of partitions (None: of all that need it); return the outcome of each.

        A named partition may have the error election_not_needed. Raises OperationError.
        """
        wanted = None if partitions is None else by_topic(partitions)

        def build(types: MessageTypes) -> Any:
            named = None
            if wanted is not None:
                named = [
                    types.new("TopicPartitions", topic=topic, partitions=indexes) for topic, indexes in wanted.items()
                ]
            return types.message(election_type=int(election_type), topic_partitions=named, timeout=self._timeout_ms)

        response = await self._ask(ApiKey.ELECT_LEADERS, build)
        if getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
            check(response, "election")
        return {
            TopicPartition(topic.topic, result.partition_id): _outcome(topic.topic, result)
            for topic in response.replica_election_results
            for result in topic.partition_result
        }


def _outcome(topic: str, result: Any) -> OperationError | None:
    try:
        check(result, f"{topic}-{result.partition_id}")
    except OperationError as error:
        return error
    return None
