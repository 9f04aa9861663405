"""The transactions of a producer: phase, partitions, and requests to the coordinators (KIP-98, KIP-890).

The producer checks it before it sends, and reports lost batches to it. It owns no task and no batch. A call that timed
out may be repeated: the coordinator recognises a repeated commit or abort.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import BodyBuilder, Connection
from crabka.clients.cluster.coordinator_requests import (
    COORDINATOR_MOVES,
    GROUP_KEY_TYPE,
    TRANSACTION_KEY_TYPE,
    find_coordinator,
    retry_passing,
)
from crabka.clients.errors import (
    AbortableTransactionError,
    ClientNetworkError,
    FatalTransactionError,
    RequestTimeoutError,
    TransactionError,
    TransactionStateError,
    VersionMismatchError,
)
from crabka.clients.producer.accumulator import ANONYMOUS, ProducerIdentity
from crabka.clients.producer.transaction_messages import (
    FIRST_INIT_WITH_EPOCH,
    LAST_ADD_PARTITIONS_OF_CLIENTS,
    LAST_VERSIONS_OF_V1,
    GroupMembership,
    OffsetToCommit,
    TransactionalSender,
    next_identity,
    transactions_version,
    worst_of_added,
    worst_of_offsets,
)
from crabka.clients.producer.transaction_outcomes import LOST_PRODUCER, passing_codes, transaction_error
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

FIRST_VERSION_WITH_IMPLIED_ADDING: Final = 2


class TransactionPhase(enum.Enum):
    """The phase of a transactional producer."""

    NEW = "not initialised"
    INITIALIZING = "being initialised"
    READY = "without a transaction"
    OPEN = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    MUST_ABORT = "in a transaction that must be aborted"
    FAILED = "failed"


_MAY_FOLLOW: Final[Mapping[TransactionPhase, frozenset[TransactionPhase]]] = {
    # A call without an answer is repeated in the phase that it began.
    TransactionPhase.INITIALIZING: frozenset({TransactionPhase.NEW, TransactionPhase.INITIALIZING}),
    TransactionPhase.OPEN: frozenset({TransactionPhase.READY}),
    TransactionPhase.COMMITTING: frozenset({TransactionPhase.OPEN, TransactionPhase.COMMITTING}),
    TransactionPhase.ABORTING: frozenset(
        {TransactionPhase.OPEN, TransactionPhase.MUST_ABORT, TransactionPhase.ABORTING}
    ),
}
_WRITABLE: Final = frozenset({TransactionPhase.OPEN, TransactionPhase.COMMITTING})


class TransactionLimits(NamedTuple):
    """The timeout of a transaction at the coordinator, and how long a call waits for coordinators."""

    timeout_ms: int
    max_block_ms: int


class TransactionManager:
    """The transactions of one transactional id, one after the other."""

    def __init__(self, cluster: Cluster, transactional_id: str, limits: TransactionLimits) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._limits = limits
        self._coordinators: dict[tuple[int, str], int] = {}
        self._error: TransactionError | None = None
        # Partitions that batches may be sent to, and those that must be added at the coordinator before.
        self._partitions: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        # The coordinator knows, or may know, the transaction: its end has to be sent.
        self._is_started = False
        # A sequence was used that may be in no log: sequences restart with another epoch.
        self._needs_new_epoch = False
        self._version = 0
        self.identity: ProducerIdentity | None = None
        self.phase = TransactionPhase.NEW

    @property
    def transactional_id(self) -> str:
        """The id under which producers replace each other."""
        return self._transactional_id

    @property
    def max_produce_version(self) -> int | None:
        """The newest version of Produce that fits the transactions of the cluster, None for any."""
        return self._max_version(ApiKey.PRODUCE)

    @property
    def is_writable(self) -> bool:
        """True while batches may be sent: they are dropped once the transaction cannot be committed."""
        return self.phase in _WRITABLE

    async def init(self) -> None:
        """Take over the transactional id from earlier producers, whose open transaction is aborted."""
        self._enter(TransactionPhase.INITIALIZING)
        await self._init_producer(ANONYMOUS)
        self.phase = TransactionPhase.READY

    def begin(self) -> None:
        """Open a transaction; nothing is sent before the first record or offset."""
        self._enter(TransactionPhase.OPEN)
        self._partitions.clear()
        self._pending.clear()
        self._is_started = False
        self._needs_new_epoch = False
        self._error = None

    def require_open(self) -> None:
        """Raise unless records may be sent now."""
        self._raise_error()
        if self.phase is not TransactionPhase.OPEN:
            raise TransactionStateError(f"the producer is {self.phase.value}: records are sent in a transaction")

    def add(self, partition: TopicPartition) -> None:
        """Record that a partition will be written."""
        if partition in self._partitions or partition in self._pending:
            return
        if self._adds_by_itself:
            self._partitions.add(partition)
            self._is_started = True
        else:
            self._pending.add(partition)

    def holds(self, partition: TopicPartition) -> bool:
        """Return whether batches of a partition may be sent; otherwise `add_pending` is needed first."""
        return partition in self._partitions

    async def add_pending(self) -> None:
        """Add new partitions at the coordinator. Raises TransactionError."""
        adding = frozenset(self._pending)
        if adding:
            await self._add(ApiKey.ADD_PARTITIONS_TO_TXN, self._sender().add_partitions(adding), worst_of_added)
            self._is_started = True
            self._partitions |= adding
            self._pending -= adding

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetToCommit], group: GroupMembership) -> None:
        """Store offsets of a group as a part of the transaction. Raises TransactionError, TransactionStateError."""
        self.require_open()
        if not offsets:
            return
        if not self._adds_by_itself:
            await self._add(ApiKey.ADD_OFFSETS_TO_TXN, self._sender().add_offsets(group.group_id))
        self._is_started = True
        place = (GROUP_KEY_TYPE, group.group_id)
        body = self._sender().commit_offsets(group, offsets)
        await self._add(ApiKey.TXN_OFFSET_COMMIT, body, worst_of_offsets, place=place)

    def start_ending(self, *, commit: bool) -> None:
        """Close the transaction for records; `end` has to follow once the batches are settled."""
        if commit or self.phase is TransactionPhase.FAILED:
            self._raise_error()
        self._enter(TransactionPhase.COMMITTING if commit else TransactionPhase.ABORTING)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort at the coordinator. Raises TransactionError, or ClientNetworkError: then call it again."""
        self._raise_error_unless_aborting()
        is_forgotten = self._error is not None and self._error.error_code in LOST_PRODUCER
        if self._is_started and not is_forgotten:
            try:
                await self._end_at_coordinator(commit=commit)
            except AbortableTransactionError as error:
                if commit or error.error_code not in LOST_PRODUCER:
                    raise
                is_forgotten = True
        if is_forgotten or (self._needs_new_epoch and not (self._adds_by_itself and self._is_started)):
            await self._init_producer(self.identity or ANONYMOUS)
        self._error = None
        self.phase = TransactionPhase.READY

    def lose_sequences(self) -> None:
        """Record that a batch with sequences is lost: it is unknown whether a log has it."""
        self._needs_new_epoch = True

    def fail(self, error: TransactionError) -> None:
        """Record that the transaction must be aborted, or with a FatalTransactionError that the producer has failed."""
        if isinstance(error, FatalTransactionError):
            self.phase, self._error = TransactionPhase.FAILED, error
        elif self.phase in _WRITABLE:
            self.phase, self._error = TransactionPhase.MUST_ABORT, error

    @property
    def _adds_by_itself(self) -> bool:
        return self._version >= FIRST_VERSION_WITH_IMPLIED_ADDING

    def _enter(self, phase: TransactionPhase) -> None:
        if phase is not TransactionPhase.ABORTING:
            self._raise_error()
        if self.phase not in _MAY_FOLLOW[phase]:
            raise TransactionStateError(f"the producer is {self.phase.value} and cannot be {phase.value} now")
        self.phase = phase

    def _raise_error(self) -> None:
        if self._error is not None:
            # One object would collect the frames of every call that raises it.
            raise type(self._error)(self._error.error_code, str(self._error)) from self._error

    def _raise_error_unless_aborting(self) -> None:
        if self.phase is not TransactionPhase.ABORTING:
            self._raise_error()

    def _sender(self) -> TransactionalSender:
        return TransactionalSender(self._transactional_id, self.identity or ANONYMOUS)

    def _max_version(self, api_key: ApiKey) -> int | None:
        return None if self._adds_by_itself else LAST_VERSIONS_OF_V1.get(api_key)

    async def _init_producer(self, current: ProducerIdentity) -> None:
        body = TransactionalSender(self._transactional_id, current).init(self._limits.timeout_ms)

        async def ask(connection: Connection) -> Any:
            if current != ANONYMOUS and connection.version_of(ApiKey.INIT_PRODUCER_ID) < FIRST_INIT_WITH_EPOCH:
                raise OperationError(ErrorCode.unsupported_version, "the coordinator returns no new epochs (KIP-360)")
            response = await connection.request(ApiKey.INIT_PRODUCER_ID, body)
            _require_none(ApiKey.INIT_PRODUCER_ID, response.error_code)
            return response, transactions_version(connection.api_versions)

        response, self._version = await self._request(ApiKey.INIT_PRODUCER_ID, ask)
        self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _end_at_coordinator(self, *, commit: bool) -> None:
        body = self._sender().end(commit=commit)
        max_version = self._max_version(ApiKey.END_TXN)

        async def ask(connection: Connection) -> Any:
            response = await connection.request(ApiKey.END_TXN, body, max_version=max_version)
            _require_none(ApiKey.END_TXN, response.error_code)
            return response

        response = await self._request(ApiKey.END_TXN, ask)
        self.identity = next_identity(response, self.identity or ANONYMOUS)

    async def _add(
        self,
        api_key: ApiKey,
        body: BodyBuilder,
        code_of: Callable[[Any], ErrorCode] = lambda response: response.error_code,
        *,
        place: tuple[int, str] | None = None,
    ) -> None:
        """Add to the transaction. After a request without an answer the outcome is unknown, so it must be aborted."""
        max_version = self._max_version(api_key)
        if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
            max_version = LAST_ADD_PARTITIONS_OF_CLIENTS

        async def ask(connection: Connection) -> None:
            _require_none(api_key, code_of(await connection.request(api_key, body, max_version=max_version)))

        try:
            await self._request(api_key, ask, place)
        except ClientNetworkError as error:
            unclear = AbortableTransactionError(ErrorCode.request_timed_out, str(error))
            self._needs_new_epoch = True
            self.fail(unclear)
            raise unclear from error

    async def _request(
        self, api_key: ApiKey, ask: Callable[[Connection], Awaitable[Any]], place: tuple[int, str] | None = None
    ) -> Any:
        """Send a request to a coordinator, with retries; a final error fails the transaction as TransactionError."""
        try:
            return await self._ask(place or (TRANSACTION_KEY_TYPE, self._transactional_id), ask, api_key)
        except VersionMismatchError as error:
            failure: TransactionError = FatalTransactionError(ErrorCode.unsupported_version, str(error))
            cause: Exception = error
        except OperationError as error:
            if error.error_code in passing_codes(api_key):
                # The outcome is unknown: the call may be repeated.
                raise RequestTimeoutError(f"{error} for {self._limits.max_block_ms} ms") from error
            failure, cause = transaction_error(api_key, error.error_code, str(error)), error
        self.fail(failure)
        raise failure from cause

    async def _ask(self, place: tuple[int, str], ask: Callable[[Connection], Awaitable[Any]], api_key: ApiKey) -> Any:
        async def attempt() -> Any:
            try:
                if place not in self._coordinators:
                    self._coordinators[place] = await find_coordinator(self._cluster, place[1], place[0])
                return await ask(await self._cluster.connection(self._coordinators[place]))
            except (OperationError, ClientNetworkError) as error:
                if not isinstance(error, OperationError) or error.error_code in COORDINATOR_MOVES:
                    self._coordinators.pop(place, None)
                raise

        return await retry_passing(self._cluster, attempt, self._limits.max_block_ms, passing_codes(api_key))


def _require_none(api_key: ApiKey, code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise OperationError(code, f"{api_key.name}: {code.name}")
