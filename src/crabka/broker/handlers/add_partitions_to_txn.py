"""AddPartitionsToTxn (24): a producer is about to write to partitions in its transaction.

Up to version 3 a client names its own partitions. From version 4 brokers ask for their clients, many transactions at
once, to add partitions or only to verify them (KIP-890). Before version 2 clients know PRODUCER_FENCED as
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.transactions.records import by_topic
from crabka.broker.transactions.state import EPOCH_BUMP_VERSION
from crabka.ids import TopicPartition
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_FOR_BROKERS = 4
# The topics of coordinators, which a client must not name.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class _Asked(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: list[TopicPartition]


async def handle(context: BrokerContext, request: Request) -> Any:
    """Answer for every partition of every transaction."""
    types = response_types(request.api_key, request.version)
    if request.version < FIRST_VERSION_FOR_BROKERS:
        results = await _add(context, request.version, _asked_by_client(request.body))
        return types.message(throttle_time=0, results_by_topic_v3_and_below=_topic_rows(types, results))
    questions = [_asked_by_broker(each) for each in request.body.transactions]
    # All at once: one that waits for replication holds up no other.
    answers = await asyncio.gather(*(_add(context, request.version, asked) for asked in questions))
    rows = [
        types.new(
            "AddPartitionsToTxnResult",
            transactional_id=asked.transactional_id,
            topic_results=_topic_rows(types, results),
        )
        for asked, results in zip(questions, answers, strict=True)
    ]
    return types.message(throttle_time=0, error_code=ErrorCode.none, results_by_transaction=rows)


def _asked_by_client(body: Any) -> _Asked:
    return _Asked(
        body.v3_and_below_transactional_id,
        body.v3_and_below_producer_id,
        body.v3_and_below_producer_epoch,
        verify_only=False,
        partitions=_places(body.v3_and_below_topics),
    )


def _asked_by_broker(transaction: Any) -> _Asked:
    return _Asked(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.verify_only,
        _places(transaction.topics),
    )


def _places(topics: Any) -> list[TopicPartition]:
    return list(dict.fromkeys(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions))


async def _add(context: BrokerContext, version: int, asked: _Asked) -> dict[TopicPartition, ErrorCode]:
    is_client = version < FIRST_VERSION_FOR_BROKERS
    refused = {place: code for place in asked.partitions if (code := _refusal(context, place, is_client=is_client))}
    if refused:
        return {place: refused.get(place, ErrorCode.operation_not_attempted) for place in asked.partitions}
    results = await context.transactions.add_partitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        asked.partitions,
        verify_only=asked.verify_only,
        client_version=0 if is_client else EPOCH_BUMP_VERSION,
    )
    if version >= FIRST_VERSION_WITH_FENCED:
        return results
    is_fenced = {ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch}
    return {place: is_fenced.get(code, code) for place, code in results.items()}


def _refusal(context: BrokerContext, place: TopicPartition, *, is_client: bool) -> ErrorCode | None:
    if is_client and place.topic in INTERNAL_TOPICS:
        return ErrorCode.topic_authorization_failed
    topic = context.image.topics.by_name.get(place.topic)
    if topic is None or place.partition not in topic.partitions:
        return ErrorCode.unknown_topic_or_partition
    return None


def _topic_rows(types: MessageTypes, results: dict[TopicPartition, ErrorCode]) -> list[Any]:
    return [
        types.new(
            "AddPartitionsToTxnTopicResult",
            name=topic,
            results_by_partition=[
                types.new(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=index,
                    partition_error_code=results[TopicPartition(topic, index)],
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(results).items()
    ]
