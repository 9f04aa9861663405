"""The next snapshot after each request, and refused requests: KIP-98, KIP-360 and KIP-890.

All functions are pure. A refusal is an OperationError with the code for the newest clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.transactions.messages import AddPartitions, EndTransaction, InitProducer, ProducerAndEpoch
from crabka.broker.transactions.state import (
    ENDED,
    EPOCH_BUMP_VERSION,
    MAX_PRODUCER_EPOCH,
    NO_ID,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    TransactionSnapshot,
    TransactionState,
    is_epoch_exhausted,
)
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabka.ids import TopicPartition

_S = TransactionState
_OUTCOMES: Final = {_S.COMPLETE_COMMIT: True, _S.COMPLETE_ABORT: False}


class ProducerIdMissing(Exception):  # noqa: N818 - a question, no error
    """The request needs a new producer id."""


def new_snapshot(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionSnapshot:
    """Return a new id: its first producer gets epoch 0."""
    return TransactionSnapshot(producer_id=producer_id, timeout_ms=timeout_ms, last_update_timestamp_ms=now_ms)


# -- InitProducerId ----------------------------------------------------------------------------------------------


def check_expected(current: TransactionSnapshot, expected: ProducerAndEpoch | None) -> None:
    """Refuse a producer with an old identity that this id does not know (any more)."""
    if expected is None or current.producer_epoch == NO_PRODUCER_EPOCH:
        return
    is_current = expected.producer_id == current.producer_id
    # Its id was replaced, and the answer was lost.
    was_replaced = expected.producer_id == current.previous_producer_id and is_epoch_exhausted(expected.producer_epoch)
    if not (is_current or was_replaced):
        raise OperationError(ErrorCode.producer_fenced)


def with_next_epoch(current: TransactionSnapshot, event: InitProducer, now_ms: int) -> TransactionSnapshot:
    """Return the id with a producer that fences all earlier ones. No transaction may be open.

    Raises ProducerIdMissing when the epochs are used up.
    """
    expected = event.expected
    producer_id, epoch, last_epoch = current.producer_id, current.producer_epoch, NO_PRODUCER_EPOCH
    if expected is not None and expected.producer_epoch == current.last_producer_epoch != current.producer_epoch:
        # A repeated request: a newer producer would have set the last epoch to none.
        last_epoch = current.last_producer_epoch
    elif expected is not None and epoch not in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        raise OperationError(ErrorCode.producer_fenced)
    else:
        last_epoch = epoch if expected is not None else NO_PRODUCER_EPOCH
        if current.is_epoch_exhausted:
            producer_id, epoch = _required(event.new_producer_id), 0
        else:
            epoch += 1
    return current.follow(
        _S.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=event.timeout_ms,
        partitions=(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
    )


# -- partitions --------------------------------------------------------------------------------------------------


def check_producer(current: TransactionSnapshot, producer: ProducerAndEpoch) -> None:
    """Refuse all producers but the current one."""
    if current.producer_id != producer.producer_id:
        raise OperationError(ErrorCode.invalid_producer_id_mapping)
    if current.producer_epoch != producer.producer_epoch:
        raise OperationError(ErrorCode.producer_fenced)


def has_partitions(current: TransactionSnapshot, partitions: Collection[TopicPartition]) -> bool:
    """Return whether an open transaction contains all of these."""
    return current.state is _S.ONGOING and all(each in current.partitions for each in partitions)


def with_partitions(current: TransactionSnapshot, event: AddPartitions, now_ms: int) -> TransactionSnapshot:
    """Return the transaction with more partitions; the first ones begin it."""
    begins = current.state in ENDED
    return current.follow(
        _S.ONGOING,
        partitions=tuple(dict.fromkeys((*current.partitions, *event.partitions))),
        start_timestamp_ms=now_ms if begins else current.start_timestamp_ms,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=event.client_version,
    )


# -- the end -----------------------------------------------------------------------------------------------------


def ended_by_client(current: TransactionSnapshot, event: EndTransaction, now_ms: int) -> TransactionSnapshot | None:
    """Return the transaction with its outcome; None if a client repeats an end that is complete.

    Raises ProducerIdMissing when the end raises the epoch and the epochs are used up.
    """
    if event.client_version >= EPOCH_BUMP_VERSION:
        return _ended_with_bump(current, event, now_ms)
    check_producer(current, event.producer)
    if current.state is _S.ONGOING:
        return _prepared(current, event, now_ms)
    if _OUTCOMES.get(current.state) is event.commit:
        return None
    raise OperationError(ErrorCode.invalid_txn_state)


def _ended_with_bump(current: TransactionSnapshot, event: EndTransaction, now_ms: int) -> TransactionSnapshot | None:
    producer_id, epoch = event.producer
    replaced = (
        current.previous_producer_id == producer_id
        and epoch == MAX_PRODUCER_EPOCH - 1
        and current.producer_epoch == 0
        and current.producer_id != producer_id
    )
    if current.producer_id != producer_id and not replaced:
        raise OperationError(ErrorCode.invalid_producer_id_mapping)
    # With the previous epoch a client repeats the end; with the current one it ends the next transaction.
    repeats = current.state in _OUTCOMES and (replaced or current.producer_epoch == epoch + 1)
    if not repeats and epoch != current.producer_epoch:
        raise OperationError(ErrorCode.producer_fenced)
    if repeats:
        if _OUTCOMES[current.state] is event.commit:
            return None
        raise OperationError(ErrorCode.invalid_txn_state)
    if current.state is not _S.ONGOING and event.commit:
        raise OperationError(ErrorCode.invalid_txn_state)
    return _prepared(current, event, now_ms)


def _prepared(current: TransactionSnapshot, event: EndTransaction, now_ms: int) -> TransactionSnapshot:
    state = _S.PREPARE_COMMIT if event.commit else _S.PREPARE_ABORT
    if event.client_version < EPOCH_BUMP_VERSION:
        return current.follow(state, last_update_timestamp_ms=now_ms, client_transaction_version=0)
    return _bumped(current, state, event.client_version, event.new_producer_id, now_ms)


def _bumped(
    current: TransactionSnapshot, state: TransactionState, version: int, new_producer_id: int | None, now_ms: int
) -> TransactionSnapshot:
    """Return an end whose markers have the next epoch, so that no earlier batch can follow them."""
    began = current.state is _S.ONGOING
    return current.follow(
        state,
        producer_epoch=min(current.producer_epoch + 1, MAX_PRODUCER_EPOCH),
        last_producer_epoch=current.producer_epoch,
        next_producer_id=_required(new_producer_id) if current.is_epoch_exhausted else NO_ID,
        start_timestamp_ms=current.start_timestamp_ms if began else now_ms,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=version,
    )


def fenced(
    current: TransactionSnapshot, server_version: int, new_producer_id: int | None, now_ms: int
) -> TransactionSnapshot:
    """Return an open transaction that is aborted without its producer, which is fenced.

    Raises ProducerIdMissing as `ended_by_client`.
    """
    if server_version >= EPOCH_BUMP_VERSION:
        return _bumped(current, _S.PREPARE_ABORT, server_version, new_producer_id, now_ms)
    return current.follow(
        _S.PREPARE_ABORT,
        producer_epoch=min(current.producer_epoch + 1, MAX_PRODUCER_EPOCH),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=0,
    )


def completed(current: TransactionSnapshot, now_ms: int) -> TransactionSnapshot:
    """Return an ended transaction with all markers written; a new producer id is valid from now on."""
    is_replaced = current.bumps_epoch and current.next_producer_id != NO_ID
    return current.follow(
        _S.COMPLETE_COMMIT if current.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT,
        producer_id=current.next_producer_id if is_replaced else current.producer_id,
        producer_epoch=0 if is_replaced else current.producer_epoch,
        next_producer_id=NO_ID,
        partitions=(),
        last_update_timestamp_ms=now_ms,
    )


def _required(new_producer_id: int | None) -> int:
    if new_producer_id is None:
        raise ProducerIdMissing
    return new_producer_id
