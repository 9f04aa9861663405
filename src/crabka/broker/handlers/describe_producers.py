"""DescribeProducers (61): the producers whose state a partition holds (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode, error_message

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

NONE = -1


def handle(context: BrokerContext, request: Request) -> Any:
    """List active producers of every asked partition that is hosted here; followers may be asked as well."""
    types = response_types(request.api_key, request.version)
    topics = []
    for topic in request.body.topics:
        rows = []
        for index in topic.partition_indexes:
            error_code, producers = ErrorCode.none, []
            try:
                partition = context.partitions.by_name(topic.name, index)
                producers = _producer_rows(types, partition.log.producer_state)
            except OperationError as error:
                error_code = error.error_code
            rows.append(
                types.new(
                    "PartitionResponse",
                    partition_index=index,
                    error_code=error_code,
                    error_message=None if error_code is ErrorCode.none else error_message(error_code),
                    active_producers=producers,
                )
            )
        topics.append(types.new("TopicResponse", name=topic.name, partitions=rows))
    return types.message(throttle_time=0, topics=topics)


def _producer_rows(types: MessageTypes, producer_state: Any) -> list[Any]:
    return [
        types.new(
            "ProducerState",
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=NONE if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in producer_state.active_producers()
    ]
