"""EndTxn (26): commits or aborts the open transaction of a producer.

From version 5 the client has transaction version 2: its epoch rises with every end, and the response has the new id
and epoch (KIP-890). Before version 2 clients know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.transactions.messages import ProducerAndEpoch
from crabka.broker.transactions.state import EPOCH_BUMP_VERSION
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_WITH_EPOCH_BUMP = 5


async def handle(context: BrokerContext, request: Request) -> Any:
    """Answer when the outcome is in the log; the markers are written afterwards."""
    body = request.body
    answer = await context.transactions.end(
        body.transactional_id,
        ProducerAndEpoch(body.producer_id, body.producer_epoch),
        commit=body.committed,
        client_version=EPOCH_BUMP_VERSION if request.version >= FIRST_VERSION_WITH_EPOCH_BUMP else 0,
    )
    if answer.error_code is ErrorCode.producer_fenced and request.version < FIRST_VERSION_WITH_FENCED:
        answer = answer._replace(error_code=ErrorCode.invalid_producer_epoch)
    return response_types(request.api_key, request.version).message(throttle_time=0, **answer._asdict())
