"""Guards of the APIs that create, extend and delete topics."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.security.acls import Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Row, with_body

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

_TOPIC = ResourceType.TOPIC
_DENIED = ErrorCode.topic_authorization_failed
_FIRST_VERSION_WITH_CONFIGS = 5
_FIRST_DELETION_WITH_IDS = 6
_METADATA_TOPIC = "__cluster_metadata"


def _once(names: list[str]) -> set[str]:
    """Return the names that are there once: the handler refuses the others in any case."""
    return {name for name, count in Counter(names).items() if count == 1}


def _create_topics(access: Access, _context: ControllerContext, request: Request) -> Admission | Answered:
    body, types = request.body, response_types(request.api_key, request.version)
    names = _once([topic.name for topic in body.topics]) - {_METADATA_TOPIC}
    if access.allows_cluster(request, Operation.CREATE, logs_denial=False):
        creatable = names
    else:
        creatable = access.allowed(request, Operation.CREATE, _TOPIC, names)
    refused = [
        types.new(
            "CreatableTopicResult",
            name=name,
            topic_id=ZERO_UUID,
            error_code=_DENIED,
            error_message="Authorization failed.",
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
        )
        for name in sorted(names - creatable)
    ]
    describable: set[str] | None = None
    if request.version >= _FIRST_VERSION_WITH_CONFIGS:
        describable = access.allowed(request, Operation.DESCRIBE_CONFIGS, _TOPIC, names, logs_denial=False)

    def finish(response: Any) -> Any:
        rows = [
            row
            if describable is None or row.error_code is not ErrorCode.none or row.name in describable
            else dataclasses.replace(
                row, topic_config_error_code=_DENIED, num_partitions=-1, replication_factor=-1, configs=()
            )
            for row in response.topics
        ]
        return dataclasses.replace(response, topics=(*rows, *refused))

    hidden = names - creatable
    admitted = tuple(topic for topic in body.topics if topic.name not in hidden)
    return Admission(with_body(request, topics=admitted), finish)


def _create_partitions(access: Access, _context: ControllerContext, request: Request) -> Admission:
    body, types = request.body, response_types(request.api_key, request.version)
    names = _once([topic.name for topic in body.topics])
    allowed = access.allowed(request, Operation.ALTER, _TOPIC, names)
    hidden = names - allowed
    refused = [
        types.new("CreatePartitionsTopicResult", name=name, error_code=_DENIED, error_message=None)
        for name in sorted(hidden)
    ]

    def finish(response: Any) -> Any:
        return dataclasses.replace(response, results=(*response.results, *refused))

    admitted = tuple(topic for topic in body.topics if topic.name not in hidden)
    return Admission(with_body(request, topics=admitted), finish)


def _delete_topics(access: Access, context: ControllerContext, request: Request) -> Admission:
    if not context.config.delete_topic_enable or access.allows_cluster(request, Operation.DELETE, logs_denial=False):
        return Admission(request)
    deletion = _Deletion(access, context, request)
    return deletion.by_id_or_name() if request.version >= _FIRST_DELETION_WITH_IDS else deletion.by_name()


class _Deletion:
    """A request to delete topics: it says nothing about topics that the client may not describe."""

    def __init__(self, access: Access, context: ControllerContext, request: Request) -> None:
        self._access = access
        self._topics = context.image.topics
        self._request = request
        self._types: MessageTypes = response_types(request.api_key, request.version)
        self._describable: set[str] = set()
        self._deletable: set[str] = set()

    def by_name(self) -> Admission:
        names = self._request.body.topic_names
        self._ask(_once(list(names)))
        hidden = {name for name in _once(list(names)) if self._is_hidden(name)}
        refused = [self._row(name, ZERO_UUID) for name in sorted(hidden)]
        return self._admission(refused, topic_names=tuple(name for name in names if name not in hidden))

    def by_id_or_name(self) -> Admission:
        rows = self._request.body.topics
        by_id = [row for row in rows if row.name is None and (row.topic_id or ZERO_UUID) in self._topics.by_id]
        by_name = [row for row in rows if row.name is not None and (row.topic_id or ZERO_UUID) == ZERO_UUID]
        once = _once([row.name for row in by_name])
        self._ask(once | {self._topics.by_id[row.topic_id].name for row in by_id})
        hidden: list[int] = []
        refused = []
        for row in by_id:
            name = self._topics.by_id[row.topic_id].name
            if name not in self._deletable:
                hidden.append(id(row))
                refused.append(self._row(name if name in self._describable else None, row.topic_id))
        for row in by_name:
            if row.name in once and self._is_hidden(row.name):
                hidden.append(id(row))
                refused.append(self._row(row.name, ZERO_UUID))
        return self._admission(refused, topics=tuple(row for row in rows if id(row) not in hidden))

    def _ask(self, names: set[str]) -> None:
        self._describable = self._access.allowed(self._request, Operation.DESCRIBE, _TOPIC, names)
        self._deletable = self._access.allowed(self._request, Operation.DELETE, _TOPIC, names)

    def _is_hidden(self, name: str) -> bool:
        """Return whether the client may not delete the topic, or may not know that there is none."""
        return name not in self._describable or (name in self._topics.by_name and name not in self._deletable)

    def _row(self, name: str | None, topic_id: Any) -> Any:
        return self._types.new(
            "DeletableTopicResult",
            name=name,
            topic_id=topic_id,
            error_code=_DENIED,
            error_message=error_message(_DENIED),
        )

    def _admission(self, refused: list[Any], **admitted: Any) -> Admission:
        def finish(response: Any) -> Any:
            # In the order of names, which says nothing about which of them exist.
            rows = sorted(
                (*response.responses, *refused), key=lambda row: (row.name or "", str(getattr(row, "topic_id", None)))
            )
            return dataclasses.replace(response, responses=tuple(rows))

        return Admission(with_body(self._request, **admitted), finish)


CREATE_TOPICS = Row(
    (
        Check(Operation.CREATE, "Cluster", "the next check"),
        Check(Operation.CREATE, "Topic", "TOPIC_AUTHORIZATION_FAILED"),
        Check(Operation.DESCRIBE_CONFIGS, "Topic", "counts and configs of the new topic are left out"),
    ),
    _create_topics,
)
CREATE_PARTITIONS = Row((Check(Operation.ALTER, "Topic", "TOPIC_AUTHORIZATION_FAILED"),), _create_partitions)
DELETE_TOPICS = Row(
    (
        Check(Operation.DELETE, "Cluster", "the next checks"),
        Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not"),
        Check(Operation.DELETE, "Topic", "TOPIC_AUTHORIZATION_FAILED"),
    ),
    _delete_topics,
)
