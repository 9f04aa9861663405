"""WriteTxnMarkers (27): the coordinator, or an administrator, ends transactions in partitions of this node.

Version 2 has the transaction version: from 2 on the epoch of a marker is above that of the data (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.transactions.ports import TxnMarker
from crabka.ids import TopicPartition
from crabka.protocol.apis import response_types

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.protocol.error_codes import ErrorCode
    from crabka.serving.request import Request


async def handle(context: BrokerContext, request: Request) -> Any:
    """Write every marker; the answer has one row per producer, as in Kafka."""
    types = response_types(request.api_key, request.version)
    markers = [_marker(each) for each in request.body.markers]
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker, results in zip(markers, await context.markers.write(markers), strict=True):
        by_producer.setdefault(marker.producer_id, {}).update(results)
    return types.message(markers=[_row(types, producer_id, rows) for producer_id, rows in by_producer.items()])


def _marker(marker: Any) -> TxnMarker:
    return TxnMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        commit=marker.transaction_result,
        partitions=tuple(
            TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
        ),
        transaction_version=getattr(marker, "transaction_version", 0),
    )


def _row(types: MessageTypes, producer_id: int, results: dict[TopicPartition, ErrorCode]) -> Any:
    topics: dict[str, list[Any]] = {}
    for (topic, index), error_code in results.items():
        row = types.new("WritableTxnMarkerPartitionResult", partition_index=index, error_code=error_code)
        topics.setdefault(topic, []).append(row)
    rows = [types.new("WritableTxnMarkerTopicResult", name=name, partitions=each) for name, each in topics.items()]
    return types.new("WritableTxnMarkerResult", producer_id=producer_id, topics=rows)
