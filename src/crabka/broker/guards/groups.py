"""Guards of the APIs of groups: READ for members, DESCRIBE for those who look, DELETE for those who clean up."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from crabka.broker.guards.topic_rows import DENIED, OFFSET_COMMIT, OFFSET_DELETE, both, topic_name
from crabka.broker.handlers.consumer_group_heartbeat import check_protocol
from crabka.errors import OperationError
from crabka.protocol.apis import MessageTypes, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import WILDCARD, Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Guard, Row, with_body
from crabka.serving.authorized_operations import UNASKED_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.context import BrokerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

_GROUP_DENIED = ErrorCode.group_authorization_failed
_DENIED_TEXT = "GROUP_AUTHORIZATION_FAILED"
_READ_GROUP = Check(Operation.READ, "Group", _DENIED_TEXT)
_DESCRIBE_GROUP = Check(Operation.DESCRIBE, "Group", _DENIED_TEXT)
_FIRST_VERSION_WITH_PROTOCOL = 5
_FIRST_VERSION_WITH_MANY_GROUPS = 8
_UNREADABLE = "The group has described topic(s) that the client is not authorized to describe."


def group_guard(operation: Operation) -> Guard:
    """Return the guard of an API about one group."""

    def guard(access: Access, _context: BrokerContext, request: Request) -> Admission:
        if not access.allows(request, operation, ResourceType.GROUP, request.body.group_id or ""):
            raise OperationError(_GROUP_DENIED)
        return Admission(request)

    return guard


_may_read = group_guard(Operation.READ)


def _sync_group(access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
    body = request.body
    if request.version >= _FIRST_VERSION_WITH_PROTOCOL and None in (body.protocol_type, body.protocol_name):
        return Admission(request)
    return _may_read(access, context, request)


def _consumer_heartbeat(access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
    check_protocol(context)
    admitted = _may_read(access, context, request)
    names = set(request.body.subscribed_topic_names or ())
    if getattr(request.body, "subscribed_topic_regex", None):
        # Which topics match is found out later, for the group as a whole, so the member must be allowed to see all.
        names.add(WILDCARD)
    if access.allowed(request, Operation.DESCRIBE, ResourceType.TOPIC, names) != names:
        raise OperationError(DENIED)
    return admitted


def _describe_groups(access: Access, _context: BrokerContext, request: Request) -> Admission:
    return _described(access, request, "groups", _absent_classic)


def _describe_consumer_groups(access: Access, context: BrokerContext, request: Request) -> Admission:
    check_protocol(context)
    admitted = _described(access, request, "group_ids", _absent_consumer)
    add_operations = admitted.finish
    types = response_types(request.api_key, request.version)

    def finish(response: Any) -> Any:
        response = response if add_operations is None else add_operations(response)
        named = {name for group in response.groups for name in _assigned_topics(group)}
        allowed = access.allowed(request, Operation.DESCRIBE, ResourceType.TOPIC, named)
        rows = [
            group
            if set(_assigned_topics(group)) <= allowed
            else _absent_consumer(types, group.group_id, DENIED, _UNREADABLE)
            for group in response.groups
        ]
        return dataclasses.replace(response, groups=tuple(rows))

    return Admission(admitted.request, finish)


def _described(access: Access, request: Request, field: str, absent: Any) -> Admission:
    wanted = tuple(getattr(request.body, field))
    allowed = access.allowed(request, Operation.DESCRIBE, ResourceType.GROUP, wanted)
    types = response_types(request.api_key, request.version)
    refused = [absent(types, group_id, _GROUP_DENIED) for group_id in wanted if group_id not in allowed]

    def with_operations(group: Any) -> Any:
        if getattr(group, "authorized_operations", UNASKED_OPERATIONS) == UNASKED_OPERATIONS:
            return group
        operations = access.operations(request, ResourceType.GROUP, group.group_id)
        return dataclasses.replace(group, authorized_operations=operations)

    def finish(response: Any) -> Any:
        return dataclasses.replace(response, groups=(*refused, *map(with_operations, response.groups)))

    admitted = tuple(group_id for group_id in wanted if group_id in allowed)
    return Admission(with_body(request, **{field: admitted}), finish)


def _absent_classic(types: MessageTypes, group_id: str, error_code: ErrorCode) -> Any:
    return types.new(
        "DescribedGroup",
        error_code=error_code,
        error_message=None,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=UNASKED_OPERATIONS,
    )


def _absent_consumer(types: MessageTypes, group_id: str, error_code: ErrorCode, message: str | None = None) -> Any:
    return types.new(
        "DescribedGroup",
        error_code=error_code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=UNASKED_OPERATIONS,
    )


def _assigned_topics(group: Any) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for each in assignment.topic_partitions:
                yield each.topic_name


def _list_groups(access: Access, _context: BrokerContext, request: Request) -> Admission:
    if access.allows_cluster(request, Operation.DESCRIBE, logs_denial=False):
        return Admission(request)

    def finish(response: Any) -> Any:
        names = [group.group_id for group in response.groups]
        allowed = access.allowed(request, Operation.DESCRIBE, ResourceType.GROUP, names, logs_denial=False)
        return dataclasses.replace(
            response, groups=tuple(group for group in response.groups if group.group_id in allowed)
        )

    return Admission(request, finish)


def _delete_groups(access: Access, _context: BrokerContext, request: Request) -> Admission:
    wanted = request.body.groups_names
    allowed = access.allowed(request, Operation.DELETE, ResourceType.GROUP, wanted)
    types = response_types(request.api_key, request.version)
    refused = [
        types.new("DeletableGroupResult", group_id=group_id, error_code=_GROUP_DENIED)
        for group_id in wanted
        if group_id not in allowed
    ]

    def finish(response: Any) -> Any:
        return dataclasses.replace(response, results=(*response.results, *refused))

    return Admission(with_body(request, groups_names=tuple(each for each in wanted if each in allowed)), finish)


def _offset_fetch(access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
    fetch = _OffsetFetch(access, context, request)
    if request.version >= _FIRST_VERSION_WITH_MANY_GROUPS:
        return fetch.many()
    return fetch.one()


class _OffsetFetch:
    """The groups of one OffsetFetch: a refused group has no topics, a refused topic has errors."""

    def __init__(self, access: Access, context: BrokerContext, request: Request) -> None:
        self._access = access
        self._context = context
        self._request = request
        self._types = response_types(request.api_key, request.version)
        self._suffix = "s" if request.version >= _FIRST_VERSION_WITH_MANY_GROUPS else ""

    def many(self) -> Admission:
        groups = self._request.body.groups
        names = [group.group_id for group in groups]
        allowed = self._access.allowed(self._request, Operation.DESCRIBE, ResourceType.GROUP, names)
        admitted = []
        refused_topics: list[tuple[Any, ...] | None] = []
        for group in groups:
            if group.group_id in allowed:
                topics, refused = self._split(group.topics)
                admitted.append(dataclasses.replace(group, topics=topics))
                refused_topics.append(refused)

        def finish(response: Any) -> Any:
            answered = iter(
                self._merged(row, refused) for row, refused in zip(response.groups, refused_topics, strict=True)
            )
            rows = [next(answered) if name in allowed else self._refused_group(name) for name in names]
            return dataclasses.replace(response, groups=tuple(rows))

        return Admission(with_body(self._request, groups=tuple(admitted)), finish)

    def one(self) -> Admission | Answered:
        body = self._request.body
        if not self._access.allows(self._request, Operation.DESCRIBE, ResourceType.GROUP, body.group_id):
            has_group_error = self._types.has_field(self._types.message_name, "error_code")
            rows = [] if has_group_error else [self._refused_topic(each, _GROUP_DENIED) for each in body.topics]
            return Answered(self._types.message(throttle_time=0, topics=rows, error_code=_GROUP_DENIED))
        topics, refused = self._split(body.topics)
        return Admission(with_body(self._request, topics=topics), lambda response: self._merged(response, refused))

    def _split(self, topics: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
        """Return the topics that may be described, and the rows of the others; None stands for all topics."""
        if topics is None:
            return None, None
        names = [topic_name(self._context, topic) for topic in topics]
        allowed = self._describable(name for name in names if name is not None)
        admitted, refused = [], []
        for topic, name in zip(topics, names, strict=True):
            if name is None or name in allowed:
                admitted.append(topic)
            else:
                refused.append(self._refused_topic(topic, DENIED))
        return tuple(admitted), tuple(refused)

    def _describable(self, names: Iterable[str]) -> set[str]:
        return self._access.allowed(self._request, Operation.DESCRIBE, ResourceType.TOPIC, names)

    def _merged(self, row: Any, refused: tuple[Any, ...] | None) -> Any:
        """Return the answer about a group with its refused topics, or without those that all topics include."""
        if refused is None:
            names = [topic_name(self._context, topic) for topic in row.topics]
            allowed = self._describable(name for name in names if name is not None)
            topics = tuple(topic for topic, name in zip(row.topics, names, strict=True) if name in allowed)
            return dataclasses.replace(row, topics=topics)
        if getattr(row, "error_code", ErrorCode.none) is not ErrorCode.none:
            return row
        return dataclasses.replace(row, topics=(*row.topics, *refused))

    def _refused_group(self, group_id: str) -> Any:
        return self._types.new("OffsetFetchResponseGroup", group_id=group_id, topics=(), error_code=_GROUP_DENIED)

    def _refused_topic(self, topic: Any, error_code: ErrorCode) -> Any:
        rows = [
            self._types.new(
                f"OffsetFetchResponsePartition{self._suffix}",
                partition_index=index,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=error_code,
            )
            for index in topic.partition_indexes
        ]
        kind = f"OffsetFetchResponseTopic{self._suffix}"
        fields = {"name": getattr(topic, "name", None), "topic_id": getattr(topic, "topic_id", None)}
        known = {key: value for key, value in fields.items() if self._types.has_field(kind, key)}
        return self._types.new(kind, partitions=rows, **known)


_READ_TOPIC = Check(Operation.READ, "Topic", "TOPIC_AUTHORIZATION_FAILED")
_DESCRIBE_TOPIC = Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED")
MEMBER = Row((_READ_GROUP,), _may_read)
SYNC_GROUP = Row((_READ_GROUP,), _sync_group)
CONSUMER_HEARTBEAT = Row(
    (_READ_GROUP, Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED", "each subscribed name")),
    _consumer_heartbeat,
)
DESCRIBE_GROUPS = Row((_DESCRIBE_GROUP,), _describe_groups)
CONSUMER_DESCRIBE = Row(
    (_DESCRIBE_GROUP, Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED", "each assigned topic")),
    _describe_consumer_groups,
)
LIST_GROUPS = Row(
    (
        Check(Operation.DESCRIBE, "Cluster", "the next check"),
        Check(Operation.DESCRIBE, "Group", "the group is left out"),
    ),
    _list_groups,
)
DELETE_GROUPS = Row((Check(Operation.DELETE, "Group", _DENIED_TEXT),), _delete_groups)
OFFSET_FETCH = Row(
    (
        _DESCRIBE_GROUP,
        Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED, or left out where all topics are asked for"),
    ),
    _offset_fetch,
)
COMMIT = Row((_READ_GROUP, _READ_TOPIC), both(_may_read, OFFSET_COMMIT.guard))
DELETE_OFFSETS = Row(
    (Check(Operation.DELETE, "Group", _DENIED_TEXT), _READ_TOPIC),
    both(group_guard(Operation.DELETE), OFFSET_DELETE.guard),
)
