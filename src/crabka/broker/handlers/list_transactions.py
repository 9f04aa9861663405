"""ListTransactions (66): the transactional ids that this node coordinates (KIP-664).

Filters: states and producer ids, from version 1 the time for which a transaction is open at least, from version 2 a
pattern that the whole id matches (KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from crabka.broker.patterns import compile_pattern
from crabka.broker.transactions.state import TransactionState
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.transactions.state import TransactionSnapshot
    from crabka.serving.request import Request

NO_DURATION_FILTER: Final = -1


def handle(context: BrokerContext, request: Request) -> Any:
    """List what passes all filters; while some ids are still loaded the list would not be complete."""
    types = response_types(request.api_key, request.version)
    names = {state.value for state in TransactionState}
    unknown = tuple(name for name in dict.fromkeys(request.body.state_filters) if name not in names)
    try:
        wanted = _Filter(request.body, context.runtime.clock.now_ms())
        rows = [
            types.new(
                "TransactionState",
                transactional_id=transaction.transactional_id,
                producer_id=transaction.current.producer_id,
                transaction_state=transaction.current.state.value,
            )
            for transaction in context.transactions.transactions()
            if wanted.passes(transaction.transactional_id, transaction.current)
        ]
    except OperationError as error:
        return types.message(
            throttle_time=0, error_code=error.error_code, unknown_state_filters=(), transaction_states=()
        )
    return types.message(
        throttle_time=0, error_code=ErrorCode.none, unknown_state_filters=unknown, transaction_states=rows
    )


class _Filter:
    """What a request asks for."""

    def __init__(self, body: Any, now_ms: int) -> None:
        self._states = frozenset(body.state_filters)
        self._producer_ids = frozenset(body.producer_id_filters)
        self._duration_ms: int = getattr(body, "duration_filter", NO_DURATION_FILTER)
        pattern = getattr(body, "transactional_id_pattern", None)
        self._pattern = compile_pattern(pattern, "TransactionalIdPattern") if pattern else None
        self._now_ms = now_ms

    def passes(self, transactional_id: str, current: TransactionSnapshot) -> bool:
        """Return whether an id is to be listed."""
        if self._producer_ids and current.producer_id not in self._producer_ids:
            return False
        if self._states and current.state.value not in self._states:
            return False
        if self._duration_ms >= 0 and self._now_ms - current.start_timestamp_ms <= self._duration_ms:
            return False
        return self._pattern is None or self._pattern.fullmatch(transactional_id) is not None
