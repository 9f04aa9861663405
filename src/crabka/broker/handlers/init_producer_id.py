"""InitProducerId (22): ids for idempotent and for transactional producers (KIP-98, KIP-360).

With a transactional id the coordinator of that id answers: the producer gets an epoch that fences all earlier ones,
after a transaction that they left open is aborted. Before version 4 clients know PRODUCER_FENCED as
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.transactions.messages import ProducerAndEpoch, ProducerAnswer
from crabka.broker.transactions.state import NO_ID, NO_PRODUCER_EPOCH
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

FIRST_VERSION_WITH_FENCED = 4
_NOBODY = ProducerAndEpoch(NO_ID, NO_PRODUCER_EPOCH)


async def handle(context: BrokerContext, request: Request) -> Any:
    """Give a producer id; an idempotent producer never gets its old one back."""
    try:
        answer = await _init(context, request.body)
    except OperationError as error:
        answer = ProducerAnswer(error.error_code)
    if answer.error_code is ErrorCode.producer_fenced and request.version < FIRST_VERSION_WITH_FENCED:
        answer = ProducerAnswer(ErrorCode.invalid_producer_epoch)
    return response_types(request.api_key, request.version).message(throttle_time=0, **answer._asdict())


async def _init(context: BrokerContext, body: Any) -> ProducerAnswer:
    expected = ProducerAndEpoch(getattr(body, "producer_id", NO_ID), getattr(body, "producer_epoch", NO_PRODUCER_EPOCH))
    if expected != _NOBODY and (expected.producer_id == NO_ID or expected.producer_epoch == NO_PRODUCER_EPOCH):
        raise OperationError(ErrorCode.invalid_request)
    if body.transactional_id is None:
        return ProducerAnswer(ErrorCode.none, await context.producer_ids.allocate(), 0)
    return await context.transactions.init_producer(
        body.transactional_id, ms(body.transaction_timeout), None if expected == _NOBODY else expected
    )
