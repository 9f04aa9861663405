"""DescribeTransactions (65): state, producer and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.transactions.records import by_topic
from crabka.broker.transactions.state import NO_ID, NO_PRODUCER_EPOCH
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe every id by itself."""
    types = response_types(request.api_key, request.version)
    rows = [_row(context, types, transactional_id) for transactional_id in request.body.transactional_ids]
    return types.message(throttle_time=0, transaction_states=rows)


def _row(context: BrokerContext, types: MessageTypes, transactional_id: str) -> Any:
    try:
        _, transaction = context.transactions.find(transactional_id)
        if transaction is None:
            raise OperationError(ErrorCode.transactional_id_not_found)
    except OperationError as error:
        return types.new(
            "TransactionState",
            error_code=error.error_code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=0,
            transaction_start_time=0,
            producer_id=NO_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            topics=(),
        )
    current = transaction.current
    return types.new(
        "TransactionState",
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=current.state.value,
        transaction_timeout=current.timeout_ms,
        transaction_start_time=current.start_timestamp_ms,
        producer_id=current.producer_id,
        producer_epoch=current.producer_epoch,
        topics=[
            types.new("TopicData", topic=topic, partitions=indexes)
            for topic, indexes in by_topic(current.partitions).items()
        ],
    )
