"""AddOffsetsToTxn (25): a producer is about to commit offsets of a group in its transaction (KIP-98).

Clients with transaction version 2 do not send it. Before version 2 clients know PRODUCER_FENCED as
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.shard import OFFSETS_TOPIC
from crabka.ids import TopicPartition
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

FIRST_VERSION_WITH_FENCED = 2


async def handle(context: BrokerContext, request: Request) -> Any:
    """Add the partition that keeps the group's offsets."""
    body = request.body
    place = TopicPartition(OFFSETS_TOPIC, context.groups.partition_of(body.group_id))
    results = await context.transactions.add_partitions(
        body.transactional_id, body.producer_id, body.producer_epoch, [place], verify_only=False, client_version=0
    )
    error_code = results[place]
    if error_code is ErrorCode.producer_fenced and request.version < FIRST_VERSION_WITH_FENCED:
        error_code = ErrorCode.invalid_producer_epoch
    return response_types(request.api_key, request.version).message(throttle_time=0, error_code=error_code)
