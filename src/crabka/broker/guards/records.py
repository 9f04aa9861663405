"""Produce needs WRITE, Fetch READ of each topic; writing in a transaction and fetching as a replica need more.

Both have handlers that pack their frames themselves, so these functions stand in their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.fetch.reader import refused_read
from crabka.broker.fetch.sessions import replica_of
from crabka.broker.handlers import fetch as fetch_handler
from crabka.broker.handlers import produce as produce_handler
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import pack_fetch_response
from crabka.records.header import TRANSACTIONAL_FLAG
from crabka.security.acls import Operation, ResourceType
from crabka.serving.access.guard import Check, Row

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.fetch.sessions import SessionTarget
    from crabka.protocol.hot import ProduceTopic
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

_TOPIC, _READ, _WRITE = ResourceType.TOPIC, Operation.READ, Operation.WRITE
_TOPIC_DENIED = int(ErrorCode.topic_authorization_failed)
_TRANSACTION_DENIED = int(ErrorCode.transactional_id_authorization_failed)
# Where the low byte of the attributes of a batch is.
_ATTRIBUTES_AT = 22


def produce(access: Access, context: BrokerContext, request: Request) -> Any:
    """Append what the client may write."""
    body = request.body
    allows = access.allows
    denied: list[ProduceTopic] = []
    is_transactional = False
    for topic in body.topics:
        name, topic_id, rows = topic
        if not name:
            found = context.quorum.image.topics.by_id.get(topic_id)
            # Its handler says that there is no such topic.
            name = "" if found is None else found.name
        if name and not allows(request, _WRITE, _TOPIC, name):
            denied.append(topic)
        for _, records in rows:
            if records is not None and len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
                is_transactional = True
    if is_transactional and (
        body.transactional_id is None
        or not allows(request, _WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    ):
        return produce_handler.handle_without(context, request, body.topics, _TRANSACTION_DENIED)
    if denied:
        return produce_handler.handle_without(context, request, denied, _TOPIC_DENIED)
    return produce_handler.handle(context, request)


def fetch(access: Access, context: BrokerContext, request: Request) -> Any:
    """Read what the client may read; a replica needs CLUSTER_ACTION instead of READ."""
    try:
        plan = context.fetch_sessions.resolve(request.body, request.version, context.runtime.clock.now_ms())
    except OperationError as error:
        return pack_fetch_response(request.version, request.correlation_id, (), error_code=int(error.error_code))
    allowed: dict[str, bool] = {}
    is_replica = replica_of(request.body, request.version)[0] >= 0
    replicates = is_replica and access.allows_cluster(request, Operation.CLUSTER_ACTION)

    def may_read(target: SessionTarget) -> bool:
        if is_replica:
            return replicates
        name = target.topic
        if not name:
            found = context.image.topics.by_id.get(target.topic_id)
            if found is None:
                return True
            name = found.name
        known = allowed.get(name)
        if known is None:
            known = allowed[name] = access.allows(request, _READ, _TOPIC, name)
        return known

    readable = [target for target in plan.targets if may_read(target)]
    if len(readable) == len(plan.targets):
        return fetch_handler.answer_plan(context, request, plan)
    refused = [
        refused_read(target, ErrorCode.topic_authorization_failed) for target in plan.targets if not may_read(target)
    ]
    return fetch_handler.answer_plan(context, request, plan._replace(targets=readable), refused)


PRODUCE = Row(
    (
        Check(_WRITE, "TransactionalId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all rows", "transactional records"),
        Check(_WRITE, "Topic", "TOPIC_AUTHORIZATION_FAILED"),
    ),
    handle=produce,
)
FETCH = Row(
    (
        Check(_READ, "Topic", "TOPIC_AUTHORIZATION_FAILED"),
        Check(
            Operation.CLUSTER_ACTION, "Cluster", "TOPIC_AUTHORIZATION_FAILED for all rows", "replicas, instead of READ"
        ),
    ),
    handle=fetch,
)
