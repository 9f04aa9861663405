"""The core of one transactional id: `step(event, now_ms) -> actions`.

One change is in progress at a time: from the append of its record to the outcome, and from a decided outcome until all
partitions have it, other requests get CONCURRENT_TRANSACTIONS. The current snapshot is always in the log, so a failed
append needs no cleanup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from crabka.broker.transactions.messages import (
    Action,
    AddPartitions,
    AnswerProducer,
    CheckExpiry,
    CheckTimeout,
    EndTransaction,
    Event,
    Forget,
    InitProducer,
    MarkersWritten,
    NeedProducerId,
    NeedsId,
    ProducerAndEpoch,
    ProducerAnswer,
    Reply,
    Resume,
    RetryCompletion,
    SendMarkers,
    StateChanged,
    StoreSnapshot,
    TransitionStored,
)
from crabka.broker.transactions.state import ENDED, EPOCH_BUMP_VERSION, TransactionSnapshot, TransactionState
from crabka.broker.transactions.transitions import (
    ProducerIdMissing,
    check_expected,
    check_producer,
    completed,
    ended_by_client,
    fenced,
    has_partitions,
    with_next_epoch,
    with_partitions,
)
from crabka.errors import OperationError, require
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabka.ids import TopicPartition

_S = TransactionState
_CONCURRENT = ProducerAnswer(ErrorCode.concurrent_transactions)
_DONE = ProducerAnswer(ErrorCode.none)


class Transaction:
    """A transactional id with its current snapshot and the one that is being appended."""

    __slots__ = ("current", "pending", "transactional_id")

    def __init__(self, transactional_id: str, current: TransactionSnapshot) -> None:
        self.transactional_id = transactional_id
        self.current = current
        self.pending: TransactionSnapshot | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a change is in progress."""
        return self.pending is not None or self.current.is_ending

    def verify(self, producer: ProducerAndEpoch, partitions: Collection[TopicPartition]) -> dict[TopicPartition, bool]:
        """Return which partitions belong to the open transaction. Raises OperationError (KIP-890 part 1)."""
        check_producer(self.current, producer)
        if self.current.is_ending:
            raise OperationError(ErrorCode.concurrent_transactions)
        return {each: each in self.current.partitions for each in partitions}

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Process an event; return the actions that follow."""
        match event:
            case InitProducer() | EndTransaction() | CheckTimeout():
                try:
                    return self._end_or_begin(event, now_ms)
                except ProducerIdMissing:
                    return [NeedProducerId(event)]
            case AddPartitions():
                return self._add_partitions(event, now_ms)
            case CheckExpiry(expiration_ms=expiration_ms):
                return self._check_expiry(expiration_ms, now_ms)
            case Resume():
                return self._finish_end(now_ms)
            case MarkersWritten(producer):
                return self._markers_written(producer, now_ms)
            case TransitionStored():
                return self._stored(event, now_ms)
            case _:
                assert_never(event)

    # -- requests ------------------------------------------------------------------------------------------------

    def _end_or_begin(self, event: NeedsId, now_ms: int) -> list[Action]:
        if isinstance(event, CheckTimeout):
            return self._check_timeout(event, now_ms)
        try:
            if isinstance(event, InitProducer):
                return self._init_producer(event, now_ms)
            return self._end(event, now_ms)
        except OperationError as error:
            return [AnswerProducer(event.reply, ProducerAnswer(error.error_code))]

    def _init_producer(self, event: InitProducer, now_ms: int) -> list[Action]:
        self._require_idle()
        check_expected(self.current, event.expected)
        if self.current.state is _S.ONGOING:
            # The transaction of an earlier producer is aborted first; this one retries for its epoch.
            target = fenced(self.current, event.server_version, event.new_producer_id, now_ms)
            return self._persist(target, event.reply, _CONCURRENT)
        target = with_next_epoch(self.current, event, now_ms)
        answer = ProducerAnswer(ErrorCode.none, target.producer_id, target.producer_epoch)
        return self._persist(target, event.reply, answer)

    def _add_partitions(self, event: AddPartitions, now_ms: int) -> list[Action]:
        try:
            self._require_idle()
            check_producer(self.current, event.producer)
        except OperationError as error:
            return [AnswerProducer(event.reply, ProducerAnswer(error.error_code))]
        if has_partitions(self.current, event.partitions):
            return [AnswerProducer(event.reply, _DONE)]
        return self._persist(with_partitions(self.current, event, now_ms), event.reply, _DONE)

    def _end(self, event: EndTransaction, now_ms: int) -> list[Action]:
        if event.client_version < EPOCH_BUMP_VERSION:
            # Such clients get the fencing error first.
            check_producer(self.current, event.producer)
        self._require_idle()
        target = ended_by_client(self.current, event, now_ms)
        if target is None:
            reported = self.current
            return [
                AnswerProducer(
                    event.reply, ProducerAnswer(ErrorCode.none, reported.producer_id, reported.producer_epoch)
                )
            ]
        reported = completed(target, now_ms)
        answer = ProducerAnswer(ErrorCode.none, reported.producer_id, reported.producer_epoch)
        return self._persist(target, event.reply, answer)

    def _require_idle(self) -> None:
        if self.is_busy:
            raise OperationError(ErrorCode.concurrent_transactions)

    # -- what happens by itself ----------------------------------------------------------------------------------

    def _check_timeout(self, event: CheckTimeout, now_ms: int) -> list[Action]:
        current = self.current
        is_open = current.state is _S.ONGOING and self.pending is None
        if not is_open or current.start_timestamp_ms + current.timeout_ms >= now_ms:
            return []
        return self._persist(fenced(current, event.server_version, event.new_producer_id, now_ms))

    def _check_expiry(self, expiration_ms: int, now_ms: int) -> list[Action]:
        current = self.current
        if self.pending is not None or current.state not in ENDED:
            return []
        if current.last_update_timestamp_ms > now_ms - expiration_ms:
            return []
        return self._persist(current.follow(_S.DEAD))

    def _markers_written(self, producer: ProducerAndEpoch, now_ms: int) -> list[Action]:
        current = self.current
        is_current = producer == (current.producer_id, current.producer_epoch)
        if not (current.is_ending and is_current) or self.pending is not None:
            # Another change was faster.
            return []
        return self._persist(completed(current, now_ms))

    # -- the log -------------------------------------------------------------------------------------------------

    def _persist(
        self, target: TransactionSnapshot, reply: Reply = None, answer: ProducerAnswer | None = None
    ) -> list[Action]:
        self.pending = target
        return [StoreSnapshot(target, TransitionStored(target=target, reply=reply, answer=answer))]

    def _stored(self, event: TransitionStored, now_ms: int) -> list[Action]:
        require(self.pending is event.target, f"{self.transactional_id}: a change was stored that is not in progress")
        self.pending = None
        if event.error_code is not ErrorCode.none:
            return self._not_stored(event)
        old, self.current = self.current, event.target
        actions: list[Action] = [StateChanged(old, self.current)]
        if event.answer is not None:
            actions.append(AnswerProducer(event.reply, event.answer))
        if self.current.state is _S.DEAD:
            actions.append(Forget())
        return actions + self._finish_end(now_ms)

    def _finish_end(self, now_ms: int) -> list[Action]:
        if not self.current.is_ending:
            return []
        if not self.current.partitions:
            # No request waits for an answer.
            return self._persist(completed(self.current, now_ms))
        return [SendMarkers(self.current)]

    def _not_stored(self, event: TransitionStored) -> list[Action]:
        if event.answer is not None:
            return [AnswerProducer(event.reply, ProducerAnswer(event.error_code))]
        if self.current.is_ending:
            producer = ProducerAndEpoch(self.current.producer_id, self.current.producer_epoch)
            return [RetryCompletion(MarkersWritten(producer))]
        return []
