"""What goes into the core of a transaction and what comes out of it: events, actions and answers.

A reply is an opaque token of the shell: it comes in with an event and goes out with its answer. An answer that
depends on a record waits in `StoreSnapshot`: the shell appends the record and then steps the core with the `done`
event, which says whether that worked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from crabka.broker.transactions.state import NO_ID, NO_PRODUCER_EPOCH
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.transactions.state import TransactionSnapshot
    from crabka.ids import TopicPartition

Reply: TypeAlias = Any


class ProducerAndEpoch(NamedTuple):
    """A producer as it knows itself."""

    producer_id: int
    producer_epoch: int


class ProducerAnswer(NamedTuple):
    """What a producer is told; id and epoch only where it gets them."""

    error_code: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """A producer begins, or goes on after an error and says who it was (KIP-360)."""

    reply: Reply
    timeout_ms: int
    expected: ProducerAndEpoch | None = None
    # The transaction version of the cluster: by its rules a transaction of an earlier producer is aborted.
    server_version: int
    # Given when the core asked for it.
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """A producer is about to write to partitions."""

    reply: Reply
    producer: ProducerAndEpoch
    partitions: tuple[TopicPartition, ...]
    client_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A producer commits or aborts."""

    reply: Reply
    producer: ProducerAndEpoch
    commit: bool
    client_version: int
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTimeout:
    """Time has passed: a transaction that is open for too long is aborted and its producer fenced."""

    server_version: int
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckExpiry:
    """Time has passed: an id that nobody has used for long is forgotten."""

    expiration_ms: int


@dataclass(frozen=True, slots=True)
class Resume:
    """The id was loaded: what its last record began is to be finished."""


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """All partitions know how the transaction of this producer ended."""

    producer: ProducerAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStored:
    """What follows the current snapshot was appended, or not."""

    target: TransactionSnapshot
    reply: Reply = None
    # What is told if it was appended; if it was not, the error is told instead.
    answer: ProducerAnswer | None = None
    error_code: ErrorCode = ErrorCode.none


NeedsId: TypeAlias = InitProducer | EndTransaction | CheckTimeout
Event: TypeAlias = NeedsId | AddPartitions | CheckExpiry | Resume | MarkersWritten | TransitionStored


def failed(done: TransitionStored, error_code: ErrorCode) -> TransitionStored:
    """Return the event that tells of an append that did not work."""
    return replace(done, error_code=error_code)


@dataclass(frozen=True, slots=True)
class AnswerProducer:
    """Tell whoever holds the reply."""

    reply: Reply
    answer: ProducerAnswer


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Append the snapshot, or a tombstone if it is dead, then step with `done`."""

    snapshot: TransactionSnapshot
    done: TransitionStored


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """Nothing happened yet: step again with this event and a fresh producer id in it."""

    event: NeedsId


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Tell all partitions how the transaction ended, however long it takes, then step with `MarkersWritten`."""

    snapshot: TransactionSnapshot


@dataclass(frozen=True, slots=True)
class RetryCompletion:
    """The last record could not be appended: step with this event again after a pause."""

    event: MarkersWritten


@dataclass(frozen=True, slots=True)
class Forget:
    """The id is gone."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """For the node's log."""

    old: TransactionSnapshot
    new: TransactionSnapshot


Action: TypeAlias = (
    AnswerProducer | StoreSnapshot | NeedProducerId | SendMarkers | RetryCompletion | Forget | StateChanged
)
