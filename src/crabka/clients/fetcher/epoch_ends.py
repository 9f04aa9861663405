"""OffsetForLeaderEpoch: where leader epochs end, to verify that a log still has the consumed records (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.leader_requests import Answers, Ask, ask_leaders, by_topic, error_or
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes

CLIENT_REPLICA_ID: Final = -1


class LeaderEpochEnd(NamedTuple):
    """The largest epoch of a log up to the requested one, and its end; -1 if there is none."""

    leader_epoch: int
    end_offset: int

    def has(self, leader_epoch: int, end_offset: int) -> bool:
        """Return whether a log has the record of an epoch before an offset."""
        return self.leader_epoch == leader_epoch and self.end_offset >= end_offset


async def epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
) -> dict[TopicPartition, LeaderEpochEnd]:
    """Return for each partition the end of an epoch at its leader. Raises OperationError, ClientNetworkError."""
    return await ask_leaders(cluster, epochs, _question(epochs), timeout_ms)


def _question(epochs: Mapping[TopicPartition, int]) -> Ask[LeaderEpochEnd]:
    async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[LeaderEpochEnd]:
        def build(types: MessageTypes) -> Any:
            topics = [
                types.new(
                    "OffsetForLeaderTopic", topic=topic, partitions=[_partition(types, topic, i) for i in indexes]
                )
                for topic, indexes in by_topic(partitions).items()
            ]
            return types.message(replica_id=CLIENT_REPLICA_ID, topics=topics)

        def _partition(types: MessageTypes, topic: str, index: int) -> Any:
            epoch = epochs[TopicPartition(topic, index)]
            return types.new("OffsetForLeaderPartition", partition=index, current_leader_epoch=-1, leader_epoch=epoch)

        response = await connection.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, build)
        return {
            TopicPartition(topic.topic, answer.partition): error_or(
                answer.error_code,
                f"epochs of {topic.topic}-{answer.partition}: {answer.error_code.name}",
                LeaderEpochEnd(answer.leader_epoch, answer.end_offset),
            )
            for topic in response.topics
            for answer in topic.partitions
        }

    return ask
