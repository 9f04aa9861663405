"""Events, actions and answers of the core of a transaction.

A reply is an opaque token of the shell: it enters with an event and leaves with its answer. An answer that depends on a
record waits for `StoreSnapshot`: the shell appends the record and then steps the core with the `done` event, which has
the outcome.
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
    """A producer by its own id and epoch."""

    producer_id: int
    producer_epoch: int


class ProducerAnswer(NamedTuple):
    """The answer to a producer; id and epoch only where it gets new ones."""

    error_code: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """A producer starts, or recovers after an error and sends its old identity (KIP-360)."""

    reply: Reply
    timeout_ms: int
    expected: ProducerAndEpoch | None = None
    # The transaction version of the cluster, by which a transaction of an earlier producer is aborted.
    server_version: int
    # Set when the core requested it.
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """A producer adds partitions before it writes to them."""

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
    """Time has passed: abort a transaction after its timeout and fence its producer."""

    server_version: int
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckExpiry:
    """Time has passed: remove an expired id."""

    expiration_ms: int


@dataclass(frozen=True, slots=True)
class Resume:
    """The id was loaded: complete what its last record began."""


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """All partitions have the marker of this producer's transaction."""

    producer: ProducerAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStored:
    """The outcome of the append of the next snapshot."""

    target: TransactionSnapshot
    reply: Reply = None
    # The answer if it was appended; otherwise the error is the answer.
    answer: ProducerAnswer | None = None
    error_code: ErrorCode = ErrorCode.none


NeedsId: TypeAlias = InitProducer | EndTransaction | CheckTimeout
Event: TypeAlias = NeedsId | AddPartitions | CheckExpiry | Resume | MarkersWritten | TransitionStored


def failed(done: TransitionStored, error_code: ErrorCode) -> TransitionStored:
    """Return the event of a failed append."""
    return replace(done, error_code=error_code)


@dataclass(frozen=True, slots=True)
class AnswerProducer:
    """Answer a request."""

    reply: Reply
    answer: ProducerAnswer


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Append the snapshot, or a tombstone if it is dead, then step with `done`."""

    snapshot: TransactionSnapshot
    done: TransitionStored


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """Nothing changed: step again with this event and a new producer id in it."""

    event: NeedsId


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write the markers to all partitions, with retries, then step with `MarkersWritten`."""

    snapshot: TransactionSnapshot


@dataclass(frozen=True, slots=True)
class RetryCompletion:
    """The last record could not be appended: step again with this event after a pause."""

    event: MarkersWritten


@dataclass(frozen=True, slots=True)
class Forget:
    """The id was removed."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """A change of state, for the node's log."""

    old: TransactionSnapshot
    new: TransactionSnapshot


Action: TypeAlias = (
    AnswerProducer | StoreSnapshot | NeedProducerId | SendMarkers | RetryCompletion | Forget | StateChanged
)
