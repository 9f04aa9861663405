"""What an error code means for a transaction: ask again, abort it, or give the producer up (KIP-588, KIP-890).

Pure. The same code means different things in different answers, as in Kafka's TransactionManager: each API has a table
of the codes that it treats in its own way, and a fate for all others.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from crabka._kio import ErrorCode
from crabka.clients.coordinator_requests import COORDINATOR_MOVES
from crabka.clients.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionError,
)
from crabka.protocol.apis import ApiKey


class Fate(enum.Enum):
    """What becomes of a transaction."""

    RETRY = enum.auto()
    ABORTABLE = enum.auto()
    FATAL = enum.auto()


LOST_PRODUCER: Final = frozenset({ErrorCode.unknown_producer_id, ErrorCode.invalid_producer_id_mapping})
"""The coordinator has forgotten the producer: it takes no word about its transaction, but gives a new epoch."""
_FENCED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
_WAITS: Final = COORDINATOR_MOVES | {ErrorCode.concurrent_transactions}
# A topic that was just made may not have reached the coordinator yet.
_WAITS_FOR_TOPICS: Final = _WAITS | {ErrorCode.unknown_topic_or_partition}
_OF_COORDINATORS: Final[Mapping[ErrorCode, Fate]] = {
    **dict.fromkeys(_FENCED, Fate.FATAL),
    **dict.fromkeys(LOST_PRODUCER, Fate.ABORTABLE),
    ErrorCode.transactional_id_authorization_failed: Fate.FATAL,
    ErrorCode.transaction_abortable: Fate.ABORTABLE,
}


class _FateTable(NamedTuple):
    """Fates by code, and the fate of every other code."""

    by_code: Mapping[ErrorCode, Fate]
    otherwise: Fate


def _table(waits: frozenset[ErrorCode], own: Mapping[ErrorCode, Fate], otherwise: Fate) -> _FateTable:
    return _FateTable({**_OF_COORDINATORS, **dict.fromkeys(waits, Fate.RETRY), **own}, otherwise)


_FATES: Final = {
    ApiKey.INIT_PRODUCER_ID: _table(_WAITS, dict.fromkeys(LOST_PRODUCER, Fate.FATAL), Fate.FATAL),
    ApiKey.ADD_PARTITIONS_TO_TXN: _table(_WAITS_FOR_TOPICS, {ErrorCode.invalid_txn_state: Fate.FATAL}, Fate.ABORTABLE),
    ApiKey.ADD_OFFSETS_TO_TXN: _table(_WAITS, {ErrorCode.group_authorization_failed: Fate.ABORTABLE}, Fate.FATAL),
    ApiKey.TXN_OFFSET_COMMIT: _table(
        _WAITS_FOR_TOPICS | {ErrorCode.request_timed_out},
        {
            ErrorCode.group_authorization_failed: Fate.ABORTABLE,
            ErrorCode.topic_authorization_failed: Fate.ABORTABLE,
            ErrorCode.fenced_instance_id: Fate.ABORTABLE,
            ErrorCode.unknown_member_id: Fate.ABORTABLE,
            ErrorCode.illegal_generation: Fate.ABORTABLE,
            ErrorCode.offset_metadata_too_large: Fate.ABORTABLE,
        },
        Fate.FATAL,
    ),
    ApiKey.END_TXN: _table(_WAITS, {}, Fate.FATAL),
    # A stale epoch is abortable here: leaders learn epochs from markers, and the coordinator has the last word.
    ApiKey.PRODUCE: _FateTable(
        {
            ErrorCode.producer_fenced: Fate.FATAL,
            ErrorCode.invalid_producer_id_mapping: Fate.FATAL,
            ErrorCode.cluster_authorization_failed: Fate.FATAL,
            ErrorCode.transactional_id_authorization_failed: Fate.FATAL,
            ErrorCode.unsupported_version: Fate.FATAL,
        },
        Fate.ABORTABLE,
    ),
}


def passing_codes(api_key: ApiKey) -> frozenset[ErrorCode]:
    """Return the codes after which a coordinator is asked the same again."""
    return frozenset(code for code, fate in _FATES[api_key].by_code.items() if fate is Fate.RETRY)


def fate_of(api_key: ApiKey, code: ErrorCode) -> Fate:
    """Return what an error in an answer means for the transaction."""
    table = _FATES[api_key]
    return table.by_code.get(code, table.otherwise)


def transaction_error(api_key: ApiKey, code: ErrorCode, message: str) -> TransactionError:
    """Return what to raise for an error that does not pass."""
    if fate_of(api_key, code) is not Fate.FATAL:
        return AbortableTransactionError(code, message)
    if code in _FENCED:
        return ProducerFencedError(
            ErrorCode.producer_fenced,
            f"{message}: another producer has the transactional id, or the transaction was ended by its timeout",
        )
    return FatalTransactionError(code, message)
