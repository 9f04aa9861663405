"""Administration of log dirs: their replicas, and moves of replicas between log dirs of one broker (KIP-113)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crabka.clients.admin.admin_types import LogDirDescription, ReplicaInfo
from crabka.clients.admin.requests import AdminRequests, check
from crabka.clients.cluster.leader_requests import by_topic
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode


class LogDirAdmin:
    """Calls to the broker that has the log dirs."""

    def __init__(self, requests: AdminRequests) -> None:
        self._cluster = requests.cluster
        self._timeout_ms = requests.timeout_ms

    async def describe(self, node_id: int, *, include_failed: bool = False) -> list[LogDirDescription]:
        """Return the log dirs of a broker with the replicas in them; failed ones only on request.

        Raises OperationError.
        """
        response = await self._cluster.request(
            node_id, ApiKey.DESCRIBE_LOG_DIRS, lambda types: types.message(topics=None), self._timeout_ms
        )
        if getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
            raise OperationError(response.error_code, f"log dirs of broker {node_id}: {response.error_code.name}")
        return [
            _log_dir(result) for result in response.results if include_failed or result.error_code is ErrorCode.none
        ]

    async def move_replicas(self, node_id: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start to move replicas to other log dirs of the same broker; `describe` shows the progress.

        A move to the current log dir cancels another move. All partitions are processed; the first error is raised.
        Raises OperationError: log_dir_not_found, invalid_replica_assignment (cordoned), kafka_storage_error,
        replica_not_available (the broker stores the choice until it gets the replica), ...
        """
        by_path: dict[str, list[TopicPartition]] = {}
        for partition, path in targets.items():
            by_path.setdefault(path, []).append(partition)

        def build(types: MessageTypes) -> Any:
            dirs = [
                types.new("AlterReplicaLogDir", path=path, topics=topics(types, partitions))
                for path, partitions in by_path.items()
            ]
            return types.message(dirs=dirs)

        def topics(types: MessageTypes, partitions: list[TopicPartition]) -> list[Any]:
            return [
                types.new("AlterReplicaLogDirTopic", name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]

        response = await self._cluster.request(node_id, ApiKey.ALTER_REPLICA_LOG_DIRS, build, self._timeout_ms)
        for topic in response.results:
            for result in topic.partitions:
                check(result, f"{topic.topic_name}-{result.partition_index}")


def _log_dir(result: Any) -> LogDirDescription:
    replicas = {
        (topic.name, replica.partition_index): ReplicaInfo(
            replica.partition_size, replica.offset_lag, replica.is_future_key
        )
        for topic in result.topics
        for replica in topic.partitions
    }
    return LogDirDescription(
        result.log_dir,
        replicas,
        getattr(result, "total_bytes", -1),
        getattr(result, "usable_bytes", -1),
        is_cordoned=getattr(result, "is_cordoned", False),
        is_online=result.error_code is ErrorCode.none,
    )
