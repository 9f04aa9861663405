"""Asks the coordinator of a transaction, on this broker or on another, about partitions of it (KIP-890).

Requests to another broker use AddPartitionsToTxn, with several transactions in one request. Without an answer the error
is Kafka's: NETWORK_EXCEPTION if the broker cannot be reached, COORDINATOR_NOT_AVAILABLE if there is none.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from crabka.broker.cluster_view import leader_of
from crabka.broker.inter_broker.outboxes import BrokerOutboxes
from crabka.broker.transactions.records import by_topic
from crabka.broker.transactions.shard import TRANSACTIONS_TOPIC
from crabka.clients.errors import VersionMismatchError
from crabka.errors import CrabkaError, InvariantError
from crabka.ids import TopicPartition
from crabka.metadata.topics import NO_LEADER
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabka.broker.inter_broker.outboxes import OtherBrokers
    from crabka.broker.transactions.coordinator import TransactionCoordinator
    from crabka.protocol.apis import MessageTypes

    Verdicts = dict[TopicPartition, ErrorCode]

log = logging.getLogger(__name__)

MAX_TRANSACTIONS_PER_REQUEST: Final = 500
FIRST_VERSION_FOR_BROKERS: Final = 4


@dataclass(slots=True)
class _Question:
    """The partitions of one transaction to check, and the callers that wait."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    asking: list[asyncio.Future[Verdicts]] = field(default_factory=list)

    def answer(self, verdicts: Verdicts) -> None:
        """Answer all callers."""
        for each in self.asking:
            if not each.done():
                each.set_result(verdicts)

    def answer_all(self, error_code: ErrorCode) -> None:
        """Answer with one error for all partitions."""
        self.answer(dict.fromkeys(self.partitions, error_code))


class ClusterPartitionAdder:
    """Asks the coordinators of the cluster for partitions of this broker."""

    def __init__(self, local: TransactionCoordinator, others: OtherBrokers) -> None:
        self._local = local
        self._others = others
        self._outboxes: BrokerOutboxes[_Question] = BrokerOutboxes(
            others.spawn, self._send, give_up=_give_up, max_batch_count=MAX_TRANSACTIONS_PER_REQUEST
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> Verdicts:
        """Add partitions to the open transaction, or only verify that they belong to it."""
        coordinator = self._coordinator_of(transactional_id)
        if coordinator == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
        if coordinator == self._others.identity.node_id:
            return await self._local.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only
            )
        question = _Question(transactional_id, producer_id, producer_epoch, verify_only, dict.fromkeys(partitions))
        verdicts = await self._ask(coordinator, question)
        return {place: verdicts.get(place, ErrorCode.network_exception) for place in partitions}

    def _coordinator_of(self, transactional_id: str) -> int:
        image = self._others.image()
        partition = image.topics.partition(TRANSACTIONS_TOPIC, self._local.partition_of(transactional_id))
        return NO_LEADER if partition is None else leader_of(image, partition)

    async def _ask(self, node_id: int, question: _Question) -> Verdicts:
        """Add a question to the next request, which has room for one question per transactional id.

        Of two producers the older one is fenced. Two questions of the same producer are merged.
        """
        asking: asyncio.Future[Verdicts] = asyncio.get_running_loop().create_future()
        waiting = self._outboxes.waiting(node_id, question.transactional_id)
        if waiting is not None:
            if waiting.producer_epoch > question.producer_epoch:
                return dict.fromkeys(question.partitions, ErrorCode.invalid_producer_epoch)
            if waiting.producer_epoch < question.producer_epoch:
                waiting.answer_all(ErrorCode.invalid_producer_epoch)
            elif (waiting.producer_id, waiting.verify_only) == (question.producer_id, question.verify_only):
                waiting.partitions.update(question.partitions)
                waiting.asking.append(asking)
                return await asking
            else:
                waiting.answer_all(ErrorCode.network_exception)
        question.asking.append(asking)
        self._outboxes.put(node_id, question.transactional_id, question)
        return await asking

    async def _send(self, node_id: int, batch: list[_Question]) -> None:
        try:
            answer = await self._others.brokers.request(
                node_id, ApiKey.ADD_PARTITIONS_TO_TXN, lambda types: _request(types, batch), self._others.timeout_ms()
            )
        except VersionMismatchError as error:
            # As in Kafka: a coordinator without this version cannot be asked, and nothing is refused.
            log.warning("Transactions are not verified with broker %d: %s", node_id, error)
            _answer_all(batch, ErrorCode.none)
        except InvariantError:
            raise
        except (CrabkaError, OSError) as error:
            if self._outboxes.note_unreached(node_id):
                log.warning("Cannot ask broker %d about transactions: %s", node_id, error)
            _answer_all(batch, ErrorCode.network_exception)
        else:
            self._outboxes.note_reached(node_id)
            _hand_out(answer, batch)


def _give_up(question: _Question) -> None:
    question.answer_all(ErrorCode.network_exception)


def _answer_all(batch: list[_Question], error_code: ErrorCode) -> None:
    for question in batch:
        question.answer_all(error_code)


def _hand_out(answer: Any, batch: list[_Question]) -> None:
    if answer.error_code is not ErrorCode.none:
        # Clients must not see authorization errors between brokers.
        is_refused = answer.error_code is ErrorCode.cluster_authorization_failed
        _answer_all(batch, ErrorCode.invalid_txn_state if is_refused else answer.error_code)
        return
    answers = {
        row.transactional_id: {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in row.topic_results
            for each in topic.results_by_partition
        }
        for row in answer.results_by_transaction
    }
    for question in batch:
        question.answer(answers.get(question.transactional_id, {}))


def _request(types: MessageTypes, batch: list[_Question]) -> Any:
    if types.version < FIRST_VERSION_FOR_BROKERS:
        raise VersionMismatchError(f"AddPartitionsToTxn has no version for brokers, only {types.version}")
    rows = [
        types.new(
            "AddPartitionsToTxnTransaction",
            transactional_id=question.transactional_id,
            producer_id=question.producer_id,
            producer_epoch=question.producer_epoch,
            verify_only=question.verify_only,
            topics=[
                types.new("AddPartitionsToTxnTopic", name=name, partitions=indexes)
                for name, indexes in by_topic(question.partitions).items()
            ],
        )
        for question in batch
    ]
    return types.message(transactions=rows)
