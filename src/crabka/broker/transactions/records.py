"""Records of `__transaction_state`: a transactional id as key, its snapshot as value, a tombstone when it is removed.

Values have version 1 (flexible) from transaction version 1 on; before that version 0, which has fewer fields.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from crabka.broker.transactions.state import STORED_STATES, TransactionSnapshot, TransactionState
from crabka.errors import WireError
from crabka.ids import TopicPartition
from crabka.protocol.entity_codec import decode_entity, encode_entity
from crabka.protocol.generated.transaction import transaction_log_value
from crabka.protocol.generated.transaction.transaction_log_key import TransactionLogKey

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHORT = Struct(">h")
_KEY_VERSION: Final = 0
_NEWEST_VALUE_VERSION: Final = 1
_STATE_NUMBERS: Final = {state: number for number, state in enumerate(STORED_STATES)}

Pair = tuple[bytes, bytes | None]


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id."""
    return _SHORT.pack(_KEY_VERSION) + encode_entity(TransactionLogKey(transactional_id=transactional_id))


def transaction_pair(transactional_id: str, snapshot: TransactionSnapshot, transaction_version: int) -> Pair:
    """Return key and value of a snapshot; a dead one has no value."""
    key = transaction_key(transactional_id)
    if snapshot.state is TransactionState.DEAD:
        return key, None
    version = min(transaction_version, _NEWEST_VALUE_VERSION)
    fields: dict[str, Any] = {
        "producer_id": snapshot.producer_id,
        "producer_epoch": snapshot.producer_epoch,
        "transaction_timeout_ms": snapshot.timeout_ms,
        "transaction_status": _STATE_NUMBERS[snapshot.state],
        "transaction_last_update_timestamp_ms": snapshot.last_update_timestamp_ms,
        "transaction_start_timestamp_ms": snapshot.start_timestamp_ms,
    }
    if version:
        fields |= {
            "previous_producer_id": snapshot.previous_producer_id,
            "next_producer_id": snapshot.next_producer_id,
            "client_transaction_version": snapshot.client_transaction_version,
        }
    row = transaction_log_value.PartitionsSchemaV1 if version else transaction_log_value.PartitionsSchemaV0
    partitions = None
    if snapshot.state is not TransactionState.EMPTY:
        partitions = tuple(
            row(topic=topic, partition_ids=tuple(indexes)) for topic, indexes in by_topic(snapshot.partitions).items()
        )
    value = transaction_log_value.VERSIONS[version](transaction_partitions=partitions, **fields)
    return key, _SHORT.pack(version) + encode_entity(value)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition indexes by topic, in the given order."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def decode_transaction(key: bytes, value: bytes | None) -> tuple[str, TransactionSnapshot | None] | None:
    """Return the id and snapshot of a record; None for a kind of record that Kafka 4.3 does not know.

    Raises WireError if the bytes are malformed.
    """
    if _version(key) != _KEY_VERSION:
        return None
    stored_key, _ = decode_entity(TransactionLogKey, key, _SHORT.size)
    return stored_key.transactional_id, None if value is None else _decode_value(value)


def _version(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise WireError("a record of __transaction_state is cut short")
    version: int
    (version,) = _SHORT.unpack_from(data)
    return version


def _decode_value(value: bytes) -> TransactionSnapshot:
    version = _version(value)
    if not 0 <= version <= _NEWEST_VALUE_VERSION:
        raise WireError(f"a transaction has the unknown version {version}")
    stored: Any
    stored, _ = decode_entity(transaction_log_value.VERSIONS[version], value, _SHORT.size)
    if not 0 <= stored.transaction_status < len(STORED_STATES):
        raise WireError(f"a transaction has the unknown state {stored.transaction_status}")
    return TransactionSnapshot(
        producer_id=stored.producer_id,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=STORED_STATES[stored.transaction_status],
        partitions=tuple(
            TopicPartition(row.topic, index)
            for row in stored.transaction_partitions or ()
            for index in row.partition_ids
        ),
        start_timestamp_ms=stored.transaction_start_timestamp_ms,
        last_update_timestamp_ms=stored.transaction_last_update_timestamp_ms,
        client_transaction_version=stored.client_transaction_version,
    )
