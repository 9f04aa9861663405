"""Asks the transaction coordinator whether partitions belong to an open transaction (KIP-890).

Old clients add partitions themselves, and the coordinator only verifies that; for clients that bump their epoch with
every transaction the first write adds the partition. `log.producers.verification` has the state
of a log meanwhile.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.log.producers.verification import Verification
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from crabka.broker.context import BrokerContext
    from crabka.broker.partition.partition import Partition

# The guard of a batch, None if its transaction is open in the partition already, or the error.
Verdict: TypeAlias = Verification | OperationError | None

# First versions of the requests whose clients know TRANSACTION_ABORTABLE, and that add their partitions implicitly.
PRODUCE_VERSIONS: Final = (11, 12)
OFFSET_COMMIT_VERSIONS: Final = (4, 5)

# A client retries the produce on NOT_ENOUGH_REPLICAS without asking for metadata first.
_COORDINATOR_AWAY: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class PartitionAdder(Protocol):
    """A question to the coordinator."""

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Add partitions to the open transaction, or only verify that they belong to it."""
        ...


class VerificationMode(Enum):
    """What a client expects of its first write to a partition in a transaction."""

    VERIFY_OLD_ERRORS = "verify, with old errors"
    VERIFY = "verify"
    ADD = "add"

    @classmethod
    def of_version(cls, version: int, first_versions: tuple[int, int]) -> VerificationMode:
        """Return the mode of a request."""
        first_with_abortable, first_adding = first_versions
        if version >= first_adding:
            return cls.ADD
        return cls.VERIFY if version >= first_with_abortable else cls.VERIFY_OLD_ERRORS

    @property
    def supports_epoch_bump(self) -> bool:
        """Return whether the client bumps its epoch with every transaction."""
        return self is VerificationMode.ADD

    def asks_coordinator(self, *, verifies: bool) -> bool:
        """Return whether a first write needs the coordinator, given `transaction.partition.verification.enable`.

        Without it the check is skipped, but not the adding: a partition that is not added gets no marker, and its last
        stable offset never advances.
        """
        return verifies or self is VerificationMode.ADD


class TransactionalProducer(NamedTuple):
    """The producer that writes."""

    transactional_id: str
    producer_id: int
    epoch: int


def begin_verification(
    context: BrokerContext, partition: Partition, producer: TransactionalProducer, sequence: int, mode: VerificationMode
) -> Verification | None:
    """Return the guard of a batch, None if its transaction is open in the partition already.

    Raises OperationError if this node does not lead the partition or the producer is fenced.
    """
    partition.require_leader()
    return partition.log.producer_state.begin_verification(
        producer.producer_id,
        producer.epoch,
        sequence=sequence,
        now_ms=context.runtime.clock.now_ms(),
        supports_epoch_bump=mode.supports_epoch_bump,
    )


async def ask_coordinator(
    adder: PartitionAdder,
    producer: TransactionalProducer,
    partitions: Collection[TopicPartition],
    mode: VerificationMode,
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of partitions, in codes that the client of a write knows."""
    answer = await adder.add_partitions(*producer, partitions, verify_only=mode is not VerificationMode.ADD)
    return {place: _for_writer(code, mode) for place, code in answer.items() if code is not ErrorCode.none}


def _for_writer(error_code: ErrorCode, mode: VerificationMode) -> ErrorCode:
    if error_code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error_code is ErrorCode.transaction_abortable and mode is VerificationMode.VERIFY_OLD_ERRORS:
        return ErrorCode.invalid_txn_state
    return error_code


def produce_error(error_code: ErrorCode, mode: VerificationMode) -> OperationError:
    """Return the error of a produce whose transaction could not be verified."""
    if error_code is ErrorCode.invalid_txn_state:
        return OperationError(error_code, "Partition was not added to the transaction")
    is_concurrent = error_code is ErrorCode.concurrent_transactions and mode is not VerificationMode.ADD
    if is_concurrent or error_code in _COORDINATOR_AWAY:
        return OperationError(
            ErrorCode.not_enough_replicas,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error_code.name.upper()}",
        )
    return OperationError(error_code)


class ProduceVerification:
    """The verification of the batches of one produce request."""

    def __init__(self, context: BrokerContext, producer: TransactionalProducer, version: int) -> None:
        self._context = context
        self.producer = producer
        self._mode = VerificationMode.of_version(version, PRODUCE_VERSIONS)

    async def run(self, sequences: Mapping[Partition, int]) -> dict[Partition, Verdict]:
        """Return the result for the batch of every partition, given the first sequences of the batches.

        The last transaction of a client that bumps its epoch may not have ended yet: it gets a short time.
        """
        config, clock = self._context.config, self._context.runtime.clock
        deadline_ms = clock.monotonic_ms() + config.add_partitions_to_txn_retry_backoff_max_ms
        while True:
            found = {partition: self._begin(partition, sequence) for partition, sequence in sequences.items()}
            asked = {
                TopicPartition(partition.topic, partition.index): partition
                for partition, verdict in found.items()
                if isinstance(verdict, Verification)
            }
            if not asked:
                return found
            failures = await ask_coordinator(self._context.partition_adder, self.producer, asked, self._mode)
            is_ending = self._mode is VerificationMode.ADD and ErrorCode.concurrent_transactions in failures.values()
            if not is_ending or clock.monotonic_ms() >= deadline_ms:
                refused = {asked[place]: produce_error(code, self._mode) for place, code in failures.items()}
                return {**found, **refused}
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    def _begin(self, partition: Partition, sequence: int) -> Verdict:
        try:
            return begin_verification(self._context, partition, self.producer, sequence, self._mode)
        except OperationError as error:
            return error
