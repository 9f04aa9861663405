"""The outcome of an error code for a transaction: retry, abort it, or fail the producer (KIP-588, KIP-890).

Pure. The same code has different outcomes in different APIs, as in Kafka's TransactionManager: each API has a table of
codes, and an outcome for all others.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from crabka.clients.cluster.coordinator_requests import COORDINATOR_MOVES
from crabka.clients.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionError,
)
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode


class Outcome(enum.Enum):
    """What an error means for a transaction."""

    RETRY = enum.auto()
    ABORTABLE = enum.auto()
    FATAL = enum.auto()


LOST_PRODUCER: Final = frozenset({ErrorCode.unknown_producer_id, ErrorCode.invalid_producer_id_mapping})
"""The coordinator no longer knows the producer: it refuses to end its transaction, but returns a new epoch."""
_FENCED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
_WAITS: Final = COORDINATOR_MOVES | {ErrorCode.concurrent_transactions}
# The coordinator may not know a new topic yet.
_WAITS_FOR_TOPICS: Final = _WAITS | {ErrorCode.unknown_topic_or_partition}
_OF_COORDINATORS: Final[Mapping[ErrorCode, Outcome]] = {
    **dict.fromkeys(_FENCED, Outcome.FATAL),
    **dict.fromkeys(LOST_PRODUCER, Outcome.ABORTABLE),
    ErrorCode.transactional_id_authorization_failed: Outcome.FATAL,
    ErrorCode.transaction_abortable: Outcome.ABORTABLE,
}


class _OutcomeTable(NamedTuple):
    """Outcomes by code, and the outcome of every other code."""

    by_code: Mapping[ErrorCode, Outcome]
    otherwise: Outcome


def _table(waits: frozenset[ErrorCode], own: Mapping[ErrorCode, Outcome], otherwise: Outcome) -> _OutcomeTable:
    return _OutcomeTable({**_OF_COORDINATORS, **dict.fromkeys(waits, Outcome.RETRY), **own}, otherwise)


_OUTCOMES: Final = {
    ApiKey.INIT_PRODUCER_ID: _table(_WAITS, dict.fromkeys(LOST_PRODUCER, Outcome.FATAL), Outcome.FATAL),
    ApiKey.ADD_PARTITIONS_TO_TXN: _table(
        _WAITS_FOR_TOPICS, {ErrorCode.invalid_txn_state: Outcome.FATAL}, Outcome.ABORTABLE
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _table(_WAITS, {ErrorCode.group_authorization_failed: Outcome.ABORTABLE}, Outcome.FATAL),
    ApiKey.TXN_OFFSET_COMMIT: _table(
        _WAITS_FOR_TOPICS | {ErrorCode.request_timed_out},
        {
            ErrorCode.group_authorization_failed: Outcome.ABORTABLE,
            ErrorCode.topic_authorization_failed: Outcome.ABORTABLE,
            ErrorCode.fenced_instance_id: Outcome.ABORTABLE,
            ErrorCode.unknown_member_id: Outcome.ABORTABLE,
            ErrorCode.illegal_generation: Outcome.ABORTABLE,
            ErrorCode.offset_metadata_too_large: Outcome.ABORTABLE,
        },
        Outcome.FATAL,
    ),
    ApiKey.END_TXN: _table(_WAITS, {}, Outcome.FATAL),
    # A stale epoch is abortable here: leaders learn epochs from markers, and the coordinator decides.
    ApiKey.PRODUCE: _OutcomeTable(
        {
            ErrorCode.producer_fenced: Outcome.FATAL,
            ErrorCode.invalid_producer_id_mapping: Outcome.FATAL,
            ErrorCode.cluster_authorization_failed: Outcome.FATAL,
            ErrorCode.transactional_id_authorization_failed: Outcome.FATAL,
            ErrorCode.unsupported_version: Outcome.FATAL,
        },
        Outcome.ABORTABLE,
    ),
}


def passing_codes(api_key: ApiKey) -> frozenset[ErrorCode]:
    """Return the codes after which a request to a coordinator is retried."""
    return frozenset(code for code, outcome in _OUTCOMES[api_key].by_code.items() if outcome is Outcome.RETRY)


def outcome_of(api_key: ApiKey, code: ErrorCode) -> Outcome:
    """Return the outcome of an error code in a response."""
    table = _OUTCOMES[api_key]
    return table.by_code.get(code, table.otherwise)


def transaction_error(api_key: ApiKey, code: ErrorCode, message: str) -> TransactionError:
    """Return the exception for an error that is not retried."""
    if outcome_of(api_key, code) is not Outcome.FATAL:
        return AbortableTransactionError(code, message)
    if code in _FENCED:
        return ProducerFencedError(
            ErrorCode.producer_fenced,
            f"{message}: another producer has the transactional id, or the transaction was ended by its timeout",
        )
    return FatalTransactionError(code, message)
