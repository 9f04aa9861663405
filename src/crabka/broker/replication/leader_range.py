"""Where the logs of a leader begin and end: ListOffsets, asked by a follower whose offset is outside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from crabka.broker.replication.follower_state import LeaderRangeKnown
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.replication.followed import FollowedPartition
    from crabka.clients.connection import Connection
    from crabka.protocol.apis import MessageTypes

_LATEST: Final = -1
_EARLIEST: Final = -2


async def ask_leader_ranges(
    connection: Connection, node_id: int, followed: Sequence[FollowedPartition]
) -> dict[FollowedPartition, LeaderRangeKnown]:
    """Return the range of each partition; without those for which the leader answers with an error.

    To a replica the leader tells the end of its log, where consumers hear of the high watermark. Raises
    ClientNetworkError, WireError, VersionMismatchError.
    """
    ends = await _ask(connection, node_id, followed, _LATEST)
    starts = await _ask(connection, node_id, followed, _EARLIEST)
    return {each: LeaderRangeKnown(starts[each], ends[each]) for each in followed if each in starts and each in ends}


async def _ask(
    connection: Connection, node_id: int, followed: Sequence[FollowedPartition], timestamp: int
) -> dict[FollowedPartition, int]:
    by_name: dict[str, dict[int, FollowedPartition]] = {}
    for each in followed:
        by_name.setdefault(each.partition.topic, {})[each.partition.index] = each

    def build(types: MessageTypes) -> Any:
        topics = [
            types.new(
                "ListOffsetsTopic",
                name=topic,
                partitions=[
                    types.new(
                        "ListOffsetsPartition",
                        partition_index=index,
                        current_leader_epoch=each.leader_epoch,
                        timestamp=timestamp,
                    )
                    for index, each in partitions.items()
                ],
            )
            for topic, partitions in by_name.items()
        ]
        return types.message(replica_id=node_id, isolation_level=0, topics=topics, timeout=0)

    response = await connection.request(ApiKey.LIST_OFFSETS, build)
    return {
        by_name[topic.name][answer.partition_index]: answer.offset
        for topic in response.topics
        for answer in topic.partitions
        if answer.error_code is ErrorCode.none and answer.partition_index in by_name.get(topic.name, {})
    }
