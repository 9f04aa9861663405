"""Guards of producers' APIs: producer ids, transactions, and what administrators ask about both."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from crabka.broker.guards.groups import group_guard
from crabka.broker.guards.topic_rows import DENIED, TXN_OFFSET_COMMIT, both
from crabka.broker.handlers.add_partitions_to_txn import FIRST_VERSION_FOR_BROKERS, INTERNAL_TOPICS
from crabka.broker.transactions.state import NO_ID, NO_PRODUCER_EPOCH
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Row, with_body

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

_TRANSACTION = ResourceType.TRANSACTIONAL_ID
_REFUSED = ErrorCode.transactional_id_authorization_failed
_REFUSED_TEXT = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def _require_write(access: Access, request: Request, transactional_id: str) -> None:
    if not access.allows(request, Operation.WRITE, _TRANSACTION, transactional_id):
        raise OperationError(_REFUSED)


def _may_write(access: Access, _context: BrokerContext, request: Request) -> Admission:
    _require_write(access, request, request.body.transactional_id)
    return Admission(request)


def _init_producer_id(access: Access, _context: BrokerContext, request: Request) -> Admission:
    transactional_id = request.body.transactional_id
    if transactional_id is not None:
        _require_write(access, request, transactional_id)
    elif not access.allows_cluster(request, Operation.IDEMPOTENT_WRITE, logs_denial=False) and not access.allows_any(
        request, Operation.WRITE, ResourceType.TOPIC
    ):
        raise OperationError(ErrorCode.cluster_authorization_failed)
    return Admission(request)


def _add_partitions(access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
    if request.version >= FIRST_VERSION_FOR_BROKERS:
        access.require_cluster(request, Operation.CLUSTER_ACTION)
        return Admission(request)
    body = request.body
    _require_write(access, request, body.v3_and_below_transactional_id)
    names = {topic.name for topic in body.v3_and_below_topics}
    # The handler refuses the topics of coordinators.
    allowed = access.allowed(request, Operation.WRITE, ResourceType.TOPIC, names - INTERNAL_TOPICS)
    if allowed == names - INTERNAL_TOPICS:
        return Admission(request)
    types = response_types(request.api_key, request.version)
    known = context.image.topics.by_name

    def code(name: str, index: int) -> ErrorCode:
        if name not in allowed:
            return DENIED
        topic = known.get(name)
        is_known = topic is not None and index in topic.partitions
        return ErrorCode.operation_not_attempted if is_known else ErrorCode.unknown_topic_or_partition

    rows = [
        types.new(
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=[
                types.new(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=index,
                    partition_error_code=code(topic.name, index),
                )
                for index in topic.partitions
            ],
        )
        for topic in body.v3_and_below_topics
    ]
    return Answered(types.message(throttle_time=0, results_by_topic_v3_and_below=rows))


def _write_markers(access: Access, _context: BrokerContext, request: Request) -> Admission:
    if not access.allows_cluster(request, Operation.ALTER, logs_denial=False):
        access.require_cluster(request, Operation.CLUSTER_ACTION)
    return Admission(request)


def _describe_transactions(access: Access, _context: BrokerContext, request: Request) -> Admission:
    wanted = request.body.transactional_ids
    allowed = access.allowed(request, Operation.DESCRIBE, _TRANSACTION, wanted)
    types = response_types(request.api_key, request.version)
    refused = [
        types.new(
            "TransactionState",
            error_code=_REFUSED,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=0,
            transaction_start_time=0,
            producer_id=NO_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            topics=(),
        )
        for transactional_id in wanted
        if transactional_id not in allowed
    ]

    def finish(response: Any) -> Any:
        names = {topic.topic for row in response.transaction_states for topic in row.topics}
        visible = access.allowed(request, Operation.DESCRIBE, ResourceType.TOPIC, names)
        rows = [
            dataclasses.replace(row, topics=tuple(topic for topic in row.topics if topic.topic in visible))
            for row in response.transaction_states
        ]
        return dataclasses.replace(response, transaction_states=(*rows, *refused))

    admitted = tuple(each for each in wanted if each in allowed)
    return Admission(with_body(request, transactional_ids=admitted), finish)


def _list_transactions(access: Access, _context: BrokerContext, request: Request) -> Admission:
    def finish(response: Any) -> Any:
        rows = response.transaction_states
        allowed = access.allowed(request, Operation.DESCRIBE, _TRANSACTION, [row.transactional_id for row in rows])
        visible = tuple(row for row in rows if row.transactional_id in allowed)
        return dataclasses.replace(response, transaction_states=visible)

    return Admission(request, finish)


_WRITE = Check(Operation.WRITE, "TransactionalId", _REFUSED_TEXT)
_READ_GROUP = Check(Operation.READ, "Group", "GROUP_AUTHORIZATION_FAILED")
INIT_PRODUCER_ID = Row(
    (
        Check(Operation.WRITE, "TransactionalId", _REFUSED_TEXT, "with a transactional id"),
        Check(Operation.IDEMPOTENT_WRITE, "Cluster", "the next check", "without a transactional id"),
        Check(Operation.WRITE, "any Topic", "CLUSTER_AUTHORIZATION_FAILED", "without a transactional id"),
    ),
    _init_producer_id,
)
ADD_PARTITIONS = Row(
    (
        Check(Operation.WRITE, "TransactionalId", _REFUSED_TEXT, "clients, up to version 3"),
        Check(
            Operation.WRITE,
            "Topic",
            "TOPIC_AUTHORIZATION_FAILED, and OPERATION_NOT_ATTEMPTED for the others",
            "clients, up to version 3",
        ),
        Check(Operation.CLUSTER_ACTION, "Cluster", "CLUSTER_AUTHORIZATION_FAILED", "brokers, from version 4"),
    ),
    _add_partitions,
)
END_TXN = Row((_WRITE,), _may_write)
ADD_OFFSETS = Row((_WRITE, _READ_GROUP), both(_may_write, group_guard(Operation.READ)))
COMMIT = Row(
    (_WRITE, _READ_GROUP, Check(Operation.READ, "Topic", "TOPIC_AUTHORIZATION_FAILED")),
    both(both(_may_write, group_guard(Operation.READ)), TXN_OFFSET_COMMIT.guard),
)
WRITE_MARKERS = Row(
    (
        Check(Operation.ALTER, "Cluster", "the next check"),
        Check(Operation.CLUSTER_ACTION, "Cluster", "CLUSTER_AUTHORIZATION_FAILED"),
    ),
    _write_markers,
)
DESCRIBE_TRANSACTIONS = Row(
    (
        Check(Operation.DESCRIBE, "TransactionalId", _REFUSED_TEXT),
        Check(Operation.DESCRIBE, "Topic", "the topic is left out"),
    ),
    _describe_transactions,
)
LIST_TRANSACTIONS = Row((Check(Operation.DESCRIBE, "TransactionalId", "the id is left out"),), _list_transactions)
