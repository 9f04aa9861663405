"""ListOffsets: offsets of timestamps and special positions (KIP-79, KIP-734, KIP-405, KIP-1023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.leader_requests import Answers, Ask, ask_leaders, ask_leaders_once, by_topic, error_or
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

CLIENT_REPLICA_ID: Final = -1


class OffsetAndTimestamp(NamedTuple):
    """The offset from a broker; offset and timestamp are -1 when there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: int = 30_000,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the first offset at or after a timestamp, or a special position such as LATEST.

    With `read_committed` LATEST is the last stable offset. Raises OperationError, ClientNetworkError.
    """
    ask = _question(timestamps, read_committed=read_committed, timeout_ms=timeout_ms)
    return await ask_leaders(cluster, timestamps, ask, timeout_ms)


async def list_offsets_once(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool, timeout_ms: int
) -> Answers[OffsetAndTimestamp]:
    """As `list_offsets` without retries; the result of a partition may be its error."""
    ask = _question(timestamps, read_committed=read_committed, timeout_ms=timeout_ms)
    return await ask_leaders_once(cluster, timestamps, ask)


def _question(
    timestamps: Mapping[TopicPartition, int], *, read_committed: bool, timeout_ms: int
) -> Ask[OffsetAndTimestamp]:
    async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[OffsetAndTimestamp]:
        def build(types: MessageTypes) -> Any:
            topics = [
                types.new("ListOffsetsTopic", name=topic, partitions=[_partition(types, topic, i) for i in indexes])
                for topic, indexes in by_topic(partitions).items()
            ]
            return types.message(
                replica_id=CLIENT_REPLICA_ID, isolation_level=int(read_committed), topics=topics, timeout=timeout_ms
            )

        def _partition(types: MessageTypes, topic: str, index: int) -> Any:
            timestamp = timestamps[TopicPartition(topic, index)]
            return types.new(
                "ListOffsetsPartition", partition_index=index, current_leader_epoch=-1, timestamp=timestamp
            )

        response = await connection.request(ApiKey.LIST_OFFSETS, build)
        return {
            TopicPartition(topic.name, answer.partition_index): error_or(
                answer.error_code,
                f"offsets of {topic.name}-{answer.partition_index}: {answer.error_code.name}",
                OffsetAndTimestamp(answer.offset, answer.timestamp, getattr(answer, "leader_epoch", -1)),
            )
            for topic in response.topics
            for answer in topic.partitions
        }

    return ask
