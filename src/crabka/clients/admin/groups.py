"""Administration of groups: list, describe, offsets, delete. Requests go to group coordinators.

Groups of the classic protocol and of KIP-848 have the same description: a broker that supports ConsumerGroupDescribe
gets that request first, and DescribeGroups if the group is of another type, as from Kafka's own tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from crabka.clients.admin.group_types import (
    CONSUMER_PROTOCOL,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
    decode_assignment_untrusted,
)
from crabka.clients.admin.requests import AdminRequests
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.coordinator_requests import (
    COORDINATOR_MOVES,
    ask_coordinator,
    find_coordinator,
    retry_passing,
)
from crabka.clients.cluster.leader_requests import by_topic
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode

NO_GENERATION: Final = -1
NO_OFFSET: Final = -1
# Up to version 9 topics have names; the ids of version 10 would hide offsets of deleted topics.
_LAST_VERSION_WITH_NAMES: Final = 9
_FIRST_VERSION_OF_MANY_GROUPS: Final = 8
_DEAD: Final = "Dead"


class GroupAdmin:
    """Calls about groups."""

    def __init__(self, requests: AdminRequests) -> None:
        self._cluster = requests.cluster
        self._timeout_ms = requests.timeout_ms

    async def list(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> Sequence[GroupListing]:
        """Return the groups of all brokers by name, filtered by states and types if given."""
        brokers = (await self._cluster.refresh(())).brokers

        async def ask(node_id: int) -> list[GroupListing]:
            connection = await self._cluster.connection(node_id)
            response = await connection.request(
                ApiKey.LIST_GROUPS,
                lambda message: message.message(states_filter=states, types_filter=types),
                self._timeout_ms,
            )
            _check(response.error_code, f"groups of broker {node_id}")
            return [_listing(group) for group in response.groups]

        attempts = (retry_passing(self._cluster, partial(ask, node_id), self._timeout_ms) for node_id in brokers)
        answers = await asyncio.gather(*attempts)
        return sorted(group for groups in answers for group in groups)

    async def describe(self, group_id: str) -> GroupDescription:
        """Return a group with its members. Raises OperationError(group_id_not_found, ...)."""

        async def attempt() -> GroupDescription:
            coordinator_id = await find_coordinator(self._cluster, group_id)
            connection = await self._cluster.connection(coordinator_id)
            if connection.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
                try:
                    return await self._describe_consumer(connection, group_id, coordinator_id)
                except OperationError as error:
                    if error.error_code not in (ErrorCode.group_id_not_found, ErrorCode.unsupported_version):
                        raise
            return await self._describe_classic(connection, group_id, coordinator_id)

        return await retry_passing(self._cluster, attempt, self._timeout_ms)

    async def _describe_consumer(self, connection: Connection, group_id: str, coordinator_id: int) -> GroupDescription:
        response = await connection.request(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            lambda types: types.message(group_ids=[group_id], include_authorized_operations=False),
            self._timeout_ms,
        )
        (group,) = response.groups
        _check(group.error_code, f"group {group_id}", group.error_message)
        return GroupDescription(
            group_id,
            "consumer",
            CONSUMER_PROTOCOL,
            group.group_state,
            group.assignor_name,
            coordinator_id,
            tuple(_consumer_member(member) for member in group.members),
            group.group_epoch,
            group.assignment_epoch,
        )

    async def _describe_classic(self, connection: Connection, group_id: str, coordinator_id: int) -> GroupDescription:
        response = await connection.request(
            ApiKey.DESCRIBE_GROUPS,
            lambda types: types.message(groups=[group_id], include_authorized_operations=False),
            self._timeout_ms,
        )
        (group,) = response.groups
        _check(group.error_code, f"group {group_id}", getattr(group, "error_message", None))
        if group.group_state == _DEAD:
            # Before version 6 a group that does not exist is a dead one.
            raise OperationError(ErrorCode.group_id_not_found, f"group {group_id} does not exist")
        is_consumer = group.protocol_type == CONSUMER_PROTOCOL
        return GroupDescription(
            group_id,
            "classic",
            group.protocol_type,
            group.group_state,
            group.protocol_data,
            coordinator_id,
            tuple(_classic_member(member, is_consumer=is_consumer) for member in group.members),
        )

    async def list_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, GroupOffset]:
        """Return the committed offsets of a group, for all or some partitions; empty for an unknown group.

        With `require_stable` it waits for offsets of transactions (KIP-447), which become valid shortly after the
        transaction has ended. Raises OperationError, with unstable_offset_commit if that takes too long.
        """
        asked = None if partitions is None else by_topic(partitions)

        def topics(types: MessageTypes, type_name: str) -> list[Any] | None:
            if asked is None:
                return None
            return [types.new(type_name, name=name, partition_indexes=indexes) for name, indexes in asked.items()]

        def build(types: MessageTypes) -> Any:
            if types.version < _FIRST_VERSION_OF_MANY_GROUPS:
                found = topics(types, "OffsetFetchRequestTopic")
                return types.message(group_id=group_id, topics=found, require_stable=require_stable)
            found = topics(types, "OffsetFetchRequestTopics")
            group = types.new("OffsetFetchRequestGroup", group_id=group_id, topics=found)
            return types.message(groups=[group], require_stable=require_stable)

        async def ask(connection: Connection) -> dict[TopicPartition, GroupOffset]:
            response = await connection.request(
                ApiKey.OFFSET_FETCH, build, self._timeout_ms, max_version=_LAST_VERSION_WITH_NAMES
            )
            # Up to version 7 the response has one group.
            group = response.groups[0] if hasattr(response, "groups") else response
            _check(group.error_code, f"offsets of group {group_id}")
            found: dict[TopicPartition, GroupOffset] = {}
            for topic in group.topics:
                for entry in topic.partitions:
                    _check(entry.error_code, f"offset of group {group_id} for {topic.name}-{entry.partition_index}")
                    if entry.committed_offset != NO_OFFSET:
                        found[TopicPartition(topic.name, entry.partition_index)] = _group_offset(entry)
            return dict(sorted(found.items()))

        async def attempt() -> dict[TopicPartition, GroupOffset]:
            return await ask(await self._cluster.connection(await find_coordinator(self._cluster, group_id)))

        passing = COORDINATOR_MOVES | ({ErrorCode.unstable_offset_commit} if require_stable else set())
        return await retry_passing(self._cluster, attempt, self._timeout_ms, passing)

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members, which is created if it does not exist.

        Raises OperationError, with unknown_member_id if the group has members.
        """

        def partition(types: MessageTypes, topic: str, index: int) -> Any:
            return types.new(
                "OffsetCommitRequestPartition",
                partition_index=index,
                committed_offset=offsets[TopicPartition(topic, index)],
                committed_leader_epoch=-1,
                committed_metadata="",
            )

        def build(types: MessageTypes) -> Any:
            topics = [
                types.new(
                    "OffsetCommitRequestTopic", name=topic, partitions=[partition(types, topic, i) for i in indexes]
                )
                for topic, indexes in by_topic(offsets).items()
            ]
            return types.message(
                group_id=group_id,
                generation_id_or_member_epoch=NO_GENERATION,
                member_id="",
                group_instance_id=None,
                retention_time=-1,
                topics=topics,
            )

        async def ask(connection: Connection) -> None:
            response = await connection.request(
                ApiKey.OFFSET_COMMIT, build, self._timeout_ms, max_version=_LAST_VERSION_WITH_NAMES
            )
            _check_partitions(response.topics, f"committing for group {group_id}")

        await ask_coordinator(self._cluster, group_id, ask, self._timeout_ms)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group (KIP-496).

        Raises OperationError (group_subscribed_to_topic, group_id_not_found, ...).
        """
        indexes_of = by_topic(partitions)

        def build(types: MessageTypes) -> Any:
            topics = [
                types.new(
                    "OffsetDeleteRequestTopic",
                    name=topic,
                    partitions=[types.new("OffsetDeleteRequestPartition", partition_index=index) for index in indexes],
                )
                for topic, indexes in indexes_of.items()
            ]
            return types.message(group_id=group_id, topics=topics)

        async def ask(connection: Connection) -> None:
            response = await connection.request(ApiKey.OFFSET_DELETE, build, self._timeout_ms)
            _check(response.error_code, f"group {group_id}")
            _check_partitions(response.topics, f"deleting offsets of group {group_id}")

        await ask_coordinator(self._cluster, group_id, ask, self._timeout_ms)

    async def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises OperationError (non_empty_group, group_id_not_found, ...)."""

        async def ask(connection: Connection) -> None:
            response = await connection.request(
                ApiKey.DELETE_GROUPS, lambda types: types.message(groups_names=[group_id]), self._timeout_ms
            )
            for result in response.results:
                _check(result.error_code, f"group {group_id}")

        await ask_coordinator(self._cluster, group_id, ask, self._timeout_ms)


def _check(code: ErrorCode, what: str, message: str | None = None) -> None:
    if code is not ErrorCode.none:
        raise OperationError(code, f"{what}: {message or code.name}")


def _check_partitions(topics: Iterable[Any], what: str) -> None:
    for topic in topics:
        for entry in topic.partitions:
            _check(entry.error_code, f"{what}: {topic.name}-{entry.partition_index}")


def _listing(group: Any) -> GroupListing:
    return GroupListing(
        group.group_id, group.protocol_type, getattr(group, "group_state", ""), getattr(group, "group_type", "").lower()
    )


def _classic_member(member: Any, *, is_consumer: bool) -> GroupMember:
    return GroupMember(
        member.member_id,
        getattr(member, "group_instance_id", None),
        member.client_id,
        member.client_host,
        decode_assignment_untrusted(member.member_assignment) if is_consumer else None,
    )


def _consumer_member(member: Any) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(entry.topic_name, index)
            for entry in assignment.topic_partitions
            for index in entry.partitions
        )
    )


def _group_offset(entry: Any) -> GroupOffset:
    return GroupOffset(entry.committed_offset, getattr(entry, "committed_leader_epoch", -1), entry.metadata or "")
