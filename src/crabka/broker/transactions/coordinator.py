"""The shell around the cores of all transactional ids: finds an id, steps it, appends, answers, sends markers.

Everything runs on the node's loop. Times are those of the wall clock, because they are stored.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from crabka.broker.coordinators.appender import Appender, AppendSettings, coordinator_error
from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.coordinators.shards import HostedShard, ShardRegistry, partition_for
from crabka.broker.transactions.markers import RETRY_PAUSE_MS, MarkerDelivery
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
    Resume,
    RetryCompletion,
    SendMarkers,
    StateChanged,
    StoreSnapshot,
    failed,
)
from crabka.broker.transactions.ports import MarkerWriter, TxnMarker
from crabka.broker.transactions.records import transaction_pair
from crabka.broker.transactions.shard import TRANSACTIONS_TOPIC, TransactionShard, replay_transactions
from crabka.broker.transactions.state import EPOCH_BUMP_VERSION, TransactionState
from crabka.broker.transactions.transaction import Transaction
from crabka.broker.transactions.transitions import new_snapshot
from crabka.errors import InvariantError, OperationError
from crabka.metadata.features import TRANSACTION_VERSION
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from crabka.broker.controller_link.producer_ids import ProducerIdAllocator
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.broker.transactions.state import TransactionSnapshot
    from crabka.config.server import ServerConfig
    from crabka.ids import TopicPartition
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn

    Hosted = HostedShard[TransactionShard]

logger = logging.getLogger(__name__)

# Kafka gives these records no sequence, and never compresses them.
_UNNUMBERED: Final = -1
_UNCOMPRESSED: Final = 0
# Keeps batches of tombstones far below the largest batch of a topic.
EXPIRED_PER_BATCH: Final = 1000


class TransactionCoordinator:
    """Transactional ids of one node."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        partitions: PartitionRegistry,
        *,
        producer_ids: ProducerIdAllocator,
        markers: MarkerWriter,
        spawn: Spawn,
        config: Callable[[], ServerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._runtime = runtime
        self._producer_ids = producer_ids
        self._spawn = spawn
        self._config = config
        self._image = image
        self._delivery = MarkerDelivery(markers, lambda topic: topic in image().topics.by_name)
        self._appender = Appender(
            runtime, logs, spawn, lambda: AppendSettings(_UNCOMPRESSED, config().request_timeout_ms, _UNNUMBERED)
        )
        self.shards: ShardRegistry[TransactionShard] = ShardRegistry(
            TRANSACTIONS_TOPIC,
            runtime,
            partitions,
            spawn,
            replay=replay_transactions,
            load_buffer_bytes=lambda: config().transaction_state_log_load_buffer_size,
            # The epoch is in the markers: those of the previous one are no longer sent.
            reloads_in_new_epoch=True,
        )
        self._partition_count: int | None = None
        # The reason why there is no topic of transactions is logged once.
        self.logged_missing_topic = False

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        """Start to load the partitions that this node leads."""
        self._follow(image)

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        """Follow the leadership of `__transaction_state`."""
        before = delta.image.topics.by_name.get(TRANSACTIONS_TOPIC)
        topic = image.topics.by_name.get(TRANSACTIONS_TOPIC)
        touched = delta.topics_created | delta.topics_changed | delta.topics_deleted
        if any(each is not None and each.topic_id in touched for each in (before, topic)):
            self._follow(image)

    def close(self) -> None:
        """Stop coordinating; incomplete ends continue after the next start."""
        self.shards.close()

    def _follow(self, image: MetadataImage) -> None:
        topic = image.topics.by_name.get(TRANSACTIONS_TOPIC)
        self._partition_count = len(topic.partitions) if topic is not None else None
        self.shards.follow_leadership(TransactionShard, self._now_ms, self._on_loaded)

    def _on_loaded(self, hosted: Hosted) -> None:
        for transaction in list(hosted.shard.transactions.values()):
            self._step(hosted, transaction, Resume())

    # -- finding -------------------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition that keeps a transactional id."""
        count = self._partition_count or self._config().transaction_state_log_num_partitions
        return partition_for(transactional_id, count)

    def find(self, transactional_id: str) -> tuple[Hosted, Transaction | None]:
        """Return the shard of an id and the id itself, if it is known.

        Raises OperationError: INVALID_REQUEST without an id, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not transactional_id:
            raise OperationError(ErrorCode.invalid_request)
        hosted = self.shards.get(self.partition_of(transactional_id))
        return hosted, hosted.shard.transactions.get(transactional_id)

    def transactions(self) -> Iterator[Transaction]:
        """Yield all ids that this node coordinates.

        Raises OperationError (COORDINATOR_LOAD_IN_PROGRESS) while some are still being loaded.
        """
        for hosted in self.shards:
            if not hosted.is_active:
                raise OperationError(ErrorCode.coordinator_load_in_progress)
            yield from list(hosted.shard.transactions.values())

    # -- requests ------------------------------------------------------------------------------------------------

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: ProducerAndEpoch | None
    ) -> ProducerAnswer:
        """Return a producer for a transactional id, which fences all earlier ones."""
        try:
            hosted, transaction = self.find(transactional_id)
            if not 0 < timeout_ms <= self._config().transaction_max_timeout_ms:
                raise OperationError(ErrorCode.invalid_transaction_timeout)
            if transaction is None:
                producer_id = await self._producer_ids.allocate()
                hosted, transaction = self.find(transactional_id)
                if transaction is None:
                    transaction = Transaction(transactional_id, new_snapshot(producer_id, timeout_ms, self._now_ms()))
                    hosted.shard.transactions[transactional_id] = transaction
        except OperationError as error:
            return ProducerAnswer(error.error_code)
        reply = PendingReply()
        event = InitProducer(
            reply=reply, timeout_ms=timeout_ms, expected=expected, server_version=self._server_version()
        )
        return await self._ask(hosted, transaction, event)

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
        client_version: int = EPOCH_BUMP_VERSION,
    ) -> dict[TopicPartition, ErrorCode]:
        """Add partitions to the transaction of a producer, or only verify that they are in it (KIP-890).

        `client_version` is the transaction version of the client that writes; 0 for clients that add their
        partitions themselves.
        """
        producer = ProducerAndEpoch(producer_id, producer_epoch)
        try:
            hosted, transaction = self.find(transactional_id)
            if transaction is None:
                raise OperationError(ErrorCode.invalid_producer_id_mapping)
            if verify_only:
                known = transaction.verify(producer, partitions)
                return {
                    place: ErrorCode.none if known[place] else ErrorCode.transaction_abortable for place in partitions
                }
        except OperationError as error:
            return dict.fromkeys(partitions, error.error_code)
        event = AddPartitions(
            reply=PendingReply(), producer=producer, partitions=tuple(partitions), client_version=client_version
        )
        answer = await self._ask(hosted, transaction, event)
        return dict.fromkeys(partitions, answer.error_code)

    async def end(
        self, transactional_id: str, producer: ProducerAndEpoch, *, commit: bool, client_version: int
    ) -> ProducerAnswer:
        """Commit or abort; answered when the outcome is in the log and final."""
        try:
            hosted, transaction = self.find(transactional_id)
            if transaction is None:
                raise OperationError(ErrorCode.invalid_producer_id_mapping)
        except OperationError as error:
            return ProducerAnswer(error.error_code)
        event = EndTransaction(reply=PendingReply(), producer=producer, commit=commit, client_version=client_version)
        return await self._ask(hosted, transaction, event)

    async def _ask(
        self, hosted: Hosted, transaction: Transaction, event: InitProducer | AddPartitions | EndTransaction
    ) -> ProducerAnswer:
        self._step(hosted, transaction, event)
        return cast("ProducerAnswer", await event.reply.wait())

    # -- duties --------------------------------------------------------------------------------------------------

    async def abort_timed_out(self) -> None:
        """Abort transactions that are open for longer than their timeout."""
        event = CheckTimeout(server_version=self._server_version())
        for hosted in self.shards:
            for transaction in list(hosted.shard.transactions.values()) if hosted.is_active else ():
                self._step(hosted, transaction, event)
            await asyncio.sleep(0)

    async def expire(self) -> None:
        """Remove ids that have expired."""
        event = CheckExpiry(expiration_ms=self._config().transactional_id_expiration_ms)
        for hosted in self.shards:
            due: list[tuple[Transaction, StoreSnapshot]] = []
            for transaction in list(hosted.shard.transactions.values()) if hosted.is_active else ():
                actions = transaction.step(event, self._now_ms())
                due += [(transaction, action) for action in actions if isinstance(action, StoreSnapshot)]
            for start in range(0, len(due), EXPIRED_PER_BATCH):
                self._persist(hosted, due[start : start + EXPIRED_PER_BATCH])
            await asyncio.sleep(0)

    # -- stepping ------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._runtime.clock.now_ms()

    def _server_version(self) -> int:
        return self._image().features.levels.get(TRANSACTION_VERSION, 0)

    def _step(self, hosted: Hosted, transaction: Transaction, event: Event) -> None:
        self._execute(hosted, transaction, transaction.step(event, self._now_ms()))

    def _execute(self, hosted: Hosted, transaction: Transaction, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case AnswerProducer(reply, answer):
                    reply.resolve(answer)
                case StoreSnapshot():
                    self._persist(hosted, [(transaction, action)])
                case NeedProducerId(event):
                    self._spawn(self._with_producer_id(hosted, transaction, event))
                case SendMarkers(snapshot):
                    self._spawn(self._send_markers(hosted, transaction, snapshot))
                case RetryCompletion(event):
                    self._spawn(self._retry(hosted, transaction, event))
                case Forget():
                    hosted.shard.transactions.pop(transaction.transactional_id, None)
                case StateChanged(old, new):
                    logger.debug("Transactional id %r: %s -> %s", transaction.transactional_id, old.state, new.state)

    def _persist(self, hosted: Hosted, changes: list[tuple[Transaction, StoreSnapshot]]) -> None:
        version = self._server_version()

        def done(error_code: ErrorCode) -> None:
            if error_code is ErrorCode.none and not hosted.is_active:
                # The leader of the partition has read the record, or will.
                error_code = ErrorCode.not_coordinator
            if error_code is not ErrorCode.none:
                logger.warning("Cannot store %d transactional ids: %s", len(changes), error_code.name)
            for transaction, action in changes:
                event = action.done
                if error_code is not ErrorCode.none:
                    event = failed(event, coordinator_error(error_code))
                self._step(hosted, transaction, event)

        if not hosted.is_active:
            done(ErrorCode.not_coordinator)
            return
        pairs = [transaction_pair(each.transactional_id, action.snapshot, version) for each, action in changes]
        # As in Kafka: a record that is not stored in time is abandoned, and the next record of the id replaces it.
        self._appender.append_in_time(hosted.partition, pairs, done)

    async def _with_producer_id(self, hosted: Hosted, transaction: Transaction, event: NeedsId) -> None:
        try:
            producer_id = await self._producer_ids.allocate()
        except InvariantError:
            raise
        except Exception as error:
            # The producer waits for an answer, whatever the error.
            logger.warning("There is no producer id for %r: %s", transaction.transactional_id, error, exc_info=True)
            if not isinstance(event, CheckTimeout):
                unknown = ErrorCode.coordinator_not_available
                event.reply.resolve(ProducerAnswer(error.error_code if isinstance(error, OperationError) else unknown))
            return
        self._step(hosted, transaction, replace(event, new_producer_id=producer_id))

    async def _send_markers(self, hosted: Hosted, transaction: Transaction, snapshot: TransactionSnapshot) -> None:
        marker = TxnMarker(
            snapshot.producer_id,
            snapshot.producer_epoch,
            hosted.leader_epoch,
            snapshot.state is TransactionState.PREPARE_COMMIT,
            snapshot.partitions,
            snapshot.client_transaction_version,
        )
        if await self._delivery.deliver(marker, lambda: hosted.is_active) and hosted.is_active:
            self._step(
                hosted,
                transaction,
                MarkersWritten(ProducerAndEpoch(snapshot.producer_id, snapshot.producer_epoch)),
            )

    async def _retry(self, hosted: Hosted, transaction: Transaction, event: MarkersWritten) -> None:
        await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        if hosted.is_active:
            self._step(hosted, transaction, event)
