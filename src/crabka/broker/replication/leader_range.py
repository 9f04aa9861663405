"""Where the logs of a leader begin and end: ListOffsets, asked by a follower whose offset is outside of them.

Some of what a leader has is in the remote tier only (KIP-405), so its log begins in two places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.broker.replication.follower_state import LeaderRangeKnown, LeaderTierKnown
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.broker.replication.followed import FollowedPartition
    from crabka.clients.cluster.connection import Connection
    from crabka.protocol.apis import MessageTypes

_LATEST: Final = -1
_EARLIEST: Final = -2
_EARLIEST_LOCAL: Final = -4
_EARLIEST_PENDING_UPLOAD: Final = -6


async def ask_leader_ranges(
    connection: Connection, node_id: int, followed: Sequence[FollowedPartition]
) -> dict[FollowedPartition, LeaderRangeKnown]:
    """Return the range of each partition; without those for which the leader answers with an error, or with no offset.

    To a replica the leader returns the end of its log, to consumers the high watermark. Raises
    ClientNetworkError, WireError, VersionMismatchError.
    """
    ends = await _ask(connection, node_id, followed, _LATEST)
    starts = await _ask(connection, node_id, followed, _EARLIEST)
    return {
        each: LeaderRangeKnown(starts[each].offset, ends[each].offset)
        for each in followed
        # A log is cut by these numbers: -1, which says that there is no such offset, must not be one of them.
        if each in starts and each in ends and min(starts[each].offset, ends[each].offset) >= 0
    }


async def ask_leader_tiers(
    connection: Connection, node_id: int, followed: Sequence[FollowedPartition], *, skips_tiered: bool
) -> dict[FollowedPartition, LeaderTierKnown]:
    """Return behind which record each partition can be fetched; without those for which that is not known.

    That is where the leader's disk begins or, for an empty follower that `skips_tiered`, where the tier ends
    (KIP-1023). Raises as `ask_leader_ranges`.
    """
    starts = await _ask(connection, node_id, followed, _EARLIEST)
    places = await _ask(connection, node_id, followed, _EARLIEST_LOCAL)
    new = [each for each in followed if skips_tiered and each.partition.log.log_end_offset == 0]
    if new:
        pending = await _ask(connection, node_id, new, _EARLIEST_PENDING_UPLOAD)
        places.update({each: place for each, place in pending.items() if place.offset >= 0})
    known = [each for each in followed if each in starts and each in places and places[each].offset > 0]
    epochs = await _ask_epochs_before(connection, node_id, {each: places[each] for each in known})
    return {
        each: LeaderTierKnown(starts[each].offset, places[each].offset - 1, epochs[each])
        for each in known
        if each in epochs
    }


class _Place(NamedTuple):
    offset: int
    leader_epoch: int


async def _ask(
    connection: Connection, node_id: int, followed: Sequence[FollowedPartition], timestamp: int
) -> dict[FollowedPartition, _Place]:
    by_name = _by_name(followed)

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
        by_name[topic.name][answer.partition_index]: _Place(answer.offset, answer.leader_epoch)
        for topic in response.topics
        for answer in topic.partitions
        if answer.error_code is ErrorCode.none and answer.partition_index in by_name.get(topic.name, {})
    }


async def _ask_epochs_before(
    connection: Connection, node_id: int, places: Mapping[FollowedPartition, _Place]
) -> dict[FollowedPartition, int]:
    """Return the epoch of the record before each place.

    It may be an older one than that of the place, of which only the leader knows whether it counts.
    """
    by_name = _by_name(list(places))

    def build(types: MessageTypes) -> Any:
        topics = [
            types.new(
                "OffsetForLeaderTopic",
                topic=topic,
                partitions=[
                    types.new(
                        "OffsetForLeaderPartition",
                        partition=index,
                        current_leader_epoch=each.leader_epoch,
                        leader_epoch=places[each].leader_epoch - 1,
                    )
                    for index, each in partitions.items()
                ],
            )
            for topic, partitions in by_name.items()
        ]
        return types.message(replica_id=node_id, topics=topics)

    response = await connection.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, build)
    epochs = {}
    for topic in response.topics:
        for answer in topic.partitions:
            each = by_name.get(topic.topic, {}).get(answer.partition)
            if each is not None and answer.error_code is ErrorCode.none:
                offset, epoch = places[each]
                # The older epoch ends behind the record before the place, or that belongs to the epoch of the place.
                epochs[each] = answer.leader_epoch if answer.end_offset >= offset else epoch
    return epochs


def _by_name(followed: Sequence[FollowedPartition]) -> dict[str, dict[int, FollowedPartition]]:
    by_name: dict[str, dict[int, FollowedPartition]] = {}
    for each in followed:
        by_name.setdefault(each.partition.topic, {})[each.partition.index] = each
    return by_name
