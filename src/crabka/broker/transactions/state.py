"""The state of a transactional id: its producer, the state of its transaction, and the legal transitions.

A `TransactionSnapshot` is the stored form in `__transaction_state`; it is immutable and replaced by the next one. Knows
nothing of requests, logs or time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import require

if TYPE_CHECKING:
    from crabka.ids import TopicPartition

NO_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
MAX_PRODUCER_EPOCH: Final = 32767
# Every end of a transaction raises the producer's epoch from this version on (KIP-890).
EPOCH_BUMP_VERSION: Final = 2


class TransactionState(Enum):
    """The states, by the names that clients see."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_S = TransactionState
# In the order of Kafka's stored numbers.
STORED_STATES: Final = tuple(_S)
ENDED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
ENDING: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})

# State -> states that it may follow. A fence is never a state of its own: it is stored as the abort that it causes.
LEGAL_PREDECESSORS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: ENDED,
    _S.ONGOING: ENDED | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    # A transaction without partitions can be aborted before it began (KIP-890).
    _S.PREPARE_ABORT: ENDED | {_S.ONGOING},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: ENDED,
    _S.PREPARE_EPOCH_FENCE: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSnapshot:
    """A transactional id at one moment."""

    producer_id: int
    # The id before the last change: a repeated end still names this one after the id was replaced.
    previous_producer_id: int = NO_ID
    # The id that replaces `producer_id` when the transaction is complete, because its epochs are used up.
    next_producer_id: int = NO_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    # Not stored. Detects a repeated init (KIP-360).
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    # In the order in which they were added, without duplicates.
    partitions: tuple[TopicPartition, ...] = ()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int
    client_transaction_version: int = 0

    @property
    def is_ending(self) -> bool:
        """Return whether the outcome is decided but has not reached all partitions."""
        return self.state in ENDING

    @property
    def is_epoch_exhausted(self) -> bool:
        """Return whether the next epoch is the last one, which is reserved to fence this producer."""
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def bumps_epoch(self) -> bool:
        """Return whether the transaction is of a client that gets a new epoch at its end."""
        return self.client_transaction_version >= EPOCH_BUMP_VERSION

    def follow(self, state: TransactionState, **changes: Any) -> TransactionSnapshot:
        """Return the next snapshot. Raises InvariantError if its state must not follow."""
        require(self.state in LEGAL_PREDECESSORS[state], f"{state.value} must not follow {self.state.value}")
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Return whether a producer id must be replaced before its epoch rises again."""
    return producer_epoch >= MAX_PRODUCER_EPOCH - 1
