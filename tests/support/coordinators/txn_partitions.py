"""A coordinator for tests of the partitions' side, and batches of transactional producers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, NamedTuple

from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import Produced, SimNode, batch, row

TRANSACTIONAL_ID = "tx"
PRODUCER_ID = 7


class Asked(NamedTuple):
    """One question to the coordinator."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool


class FakeCoordinator:
    """Knows which partitions belong to transactions, and answers as the test sets it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        # What the next questions are answered with; without any, all partitions belong to the transaction.
        self.answers: list[ErrorCode] = []
        # Questions wait while it is not set.
        self.open = asyncio.Event()
        self.open.set()

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Note the question and answer it."""
        self.asked.append(Asked(transactional_id, producer_id, producer_epoch, tuple(partitions), verify_only))
        answer = self.answers.pop(0) if self.answers else ErrorCode.none
        await self.open.wait()
        return dict.fromkeys(partitions, answer)


def fake_coordinator(node: SimNode) -> FakeCoordinator:
    """Let a fake answer the questions of partitions to the coordinator of a running node."""
    fake = node.context.partition_adder = FakeCoordinator()
    return fake


def transactional_batch(*values: bytes, sequence: int = 0, epoch: int = 0, producer_id: int = PRODUCER_ID) -> bytes:
    """Return a batch of a transaction."""
    return batch(*values, transactional=True, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def produce(node: SimNode, topic: str, records: bytes, *, version: int = 12, **options: Any) -> Produced:
    """Produce a batch of the transaction."""
    return node.produce(topic, records, version=version, transactional_id=TRANSACTIONAL_ID, **options)


def end(
    node: SimNode,
    places: Collection[tuple[str, int]],
    *,
    commit: bool,
    epoch: int = 1,
    producer_id: int = PRODUCER_ID,
    transaction_version: int = 2,
    coordinator_epoch: int = 0,
    version: int = 2,
) -> list[ErrorCode]:
    """Write markers and return their error codes in the order of the places."""
    marker = row(
        "WritableTxnMarker",
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[row("WritableTxnMarkerTopic", name=name, partition_indexes=(index,)) for name, index in places],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    answer = node.ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
    rows = {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.markers[0].topics
        for each in topic.partitions
    }
    return [rows[place] for place in places]
