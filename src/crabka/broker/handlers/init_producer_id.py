"""InitProducerId (22): ids for idempotent producers (KIP-98, KIP-360).

Transactions are not served yet: a transactional id is answered with the error that Kafka gives while no
coordinator for it can be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.ids import NO_PRODUCER_ID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext, Request

NO_PRODUCER_EPOCH = -1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Give a fresh producer id; an idempotent producer never gets its old one back."""
    types = response_types(request.api_key, request.version)
    error_code, producer_id, producer_epoch = ErrorCode.none, int(NO_PRODUCER_ID), NO_PRODUCER_EPOCH
    try:
        _check(request.body)
        producer_id, producer_epoch = await context.producer_ids.allocate(), 0
    except OperationError as error:
        error_code = error.error_code
    return types.message(throttle_time=0, error_code=error_code, producer_id=producer_id, producer_epoch=producer_epoch)


def _check(body: Any) -> None:
    if body.transactional_id == "":
        raise OperationError(ErrorCode.invalid_request)
    if body.transactional_id is not None:
        raise OperationError(ErrorCode.coordinator_not_available)
    producer_id = getattr(body, "producer_id", NO_PRODUCER_ID)
    producer_epoch = getattr(body, "producer_epoch", NO_PRODUCER_EPOCH)
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
        raise OperationError(ErrorCode.invalid_request)
