"""Transactions: a core driven step by step, and a producer that talks to a node whose markers are under control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crabka.broker.transactions.messages import (
    Action,
    AddPartitions,
    AnswerProducer,
    EndTransaction,
    Event,
    InitProducer,
    ProducerAndEpoch,
    ProducerAnswer,
    StoreSnapshot,
    failed,
)
from crabka.broker.transactions.ports import TxnMarker
from crabka.broker.transactions.state import TransactionSnapshot
from crabka.broker.transactions.transaction import Transaction
from crabka.broker.transactions.transitions import new_snapshot
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row

NOW_MS = 1_000_000
TIMEOUT_MS = 60_000
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class SteppedTransaction:
    """A core whose records are stored at once, unless a test says otherwise."""

    def __init__(self, current: TransactionSnapshot | None = None) -> None:
        self.core = Transaction("id", current or new_snapshot(7, TIMEOUT_MS, NOW_MS))
        self.now_ms = NOW_MS
        self.fail_with = ErrorCode.none
        self.stored: list[TransactionSnapshot] = []
        self.others: list[Action] = []

    def step(self, event: Event) -> list[ProducerAnswer]:
        """Step with an event, store what is to be stored; return the answers."""
        answers = []
        queue = self.core.step(event, self.now_ms)
        while queue:
            action = queue.pop(0)
            if isinstance(action, StoreSnapshot):
                done = action.done
                if self.fail_with is ErrorCode.none:
                    self.stored.append(action.snapshot)
                else:
                    done = failed(done, self.fail_with)
                queue += self.core.step(done, self.now_ms)
            elif isinstance(action, AnswerProducer):
                answers.append(action.answer)
            else:
                self.others.append(action)
        return answers

    def took(self, kind: type[Action]) -> list[Any]:
        """Return the actions of one kind since the last call."""
        found = [each for each in self.others if isinstance(each, kind)]
        self.others = [each for each in self.others if not isinstance(each, kind)]
        return found

    @property
    def producer(self) -> ProducerAndEpoch:
        """The current producer."""
        return ProducerAndEpoch(self.core.current.producer_id, self.core.current.producer_epoch)

    def init(self, expected: ProducerAndEpoch | None = None, *, server: int = 2, new_id: int | None = None) -> Any:
        """Init a producer; return the answer, None if the core asked for an id."""
        event = InitProducer(
            reply=None, timeout_ms=TIMEOUT_MS, expected=expected, server_version=server, new_producer_id=new_id
        )
        return next(iter(self.step(event)), None)

    def add(self, *places: TopicPartition, producer: ProducerAndEpoch | None = None, client: int = 2) -> ErrorCode:
        """Add partitions."""
        who = producer or self.producer
        (answer,) = self.step(AddPartitions(reply=None, producer=who, partitions=places, client_version=client))
        return answer.error_code

    def end(
        self,
        *,
        commit: bool = True,
        producer: ProducerAndEpoch | None = None,
        client: int = 2,
        new_id: int | None = None,
    ) -> Any:
        """Commit or abort; return the answer, None if the core asked for an id."""
        who = producer or self.producer
        event = EndTransaction(reply=None, producer=who, commit=commit, client_version=client, new_producer_id=new_id)
        return next(iter(self.step(event)), None)


class ControlledMarkers:
    """A writer of markers that answers what a test wants."""

    def __init__(self) -> None:
        self.written: list[TxnMarker] = []
        self.answers: dict[TopicPartition, ErrorCode] = {}

    async def write(self, markers: Sequence[TxnMarker]) -> list[dict[TopicPartition, ErrorCode]]:
        """Note the markers."""
        self.written += markers
        return [{place: self.answers.get(place, ErrorCode.none) for place in marker.partitions} for marker in markers]


def control_markers(node: SimNode) -> ControlledMarkers:
    """Put a writer that tests control into a node."""
    markers = ControlledMarkers()
    node.context.transactions._delivery._writer = markers
    return markers


class NodeProducer:
    """A transactional producer of a node, with the requests that go to the coordinator."""

    def __init__(self, node: SimNode, transactional_id: str = "id") -> None:
        self.node = node
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        node.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[transactional_id])

    def init(self, version: int = 5, *, timeout_ms: int = TIMEOUT_MS) -> ErrorCode:
        """Get an id and an epoch."""
        answer = self.node.ask(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=self.transactional_id,
            transaction_timeout=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        if answer.error_code is ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def add(self, version: int = 3, *, topic: str = "t", partitions: Sequence[int] = (0,)) -> list[ErrorCode]:
        """Add partitions as a client of an earlier transaction version."""
        answer = self.node.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[row("AddPartitionsToTxnTopic", name=topic, partitions=partitions)],
        )
        return [
            each.partition_error_code
            for topic_row in answer.results_by_topic_v3_and_below
            for each in topic_row.results_by_partition
        ]

    def add_by_broker(
        self, version: int = 5, *, topic: str = "t", partitions: Sequence[int] = (0,), verify_only: bool = False
    ) -> list[ErrorCode]:
        """Add or verify partitions as the broker of a client with transaction version 2 does."""
        transaction = row(
            "AddPartitionsToTxnTransaction",
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=[row("AddPartitionsToTxnTopic", name=topic, partitions=partitions)],
        )
        answer = self.node.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[transaction])
        (result,) = answer.results_by_transaction
        assert result.transactional_id == self.transactional_id
        return [
            each.partition_error_code for topic_row in result.topic_results for each in topic_row.results_by_partition
        ]

    def end(self, version: int = 5, *, commit: bool = True) -> ErrorCode:
        """Commit or abort; take over the new epoch."""
        answer = self.node.ask(
            ApiKey.END_TXN,
            version,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        if answer.error_code is ErrorCode.none and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def describe(self) -> Any:
        """Return what the node says of this id."""
        answer = self.node.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.transactional_id])
        return answer.transaction_states[0]

    @property
    def state(self) -> str:
        """The state of the transaction."""
        return str(self.describe().transaction_state)
