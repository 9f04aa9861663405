"""Questions about transactions go to their coordinators, wherever these are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from crabka.broker.coordinators.shards import partition_for
from crabka.broker.transactions.cluster_partition_adder import ClusterPartitionAdder
from crabka.broker.transactions.coordinator import TransactionCoordinator
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import NO_ANSWER, DisconnectError, Later, ReceivedRequest
from tests.support.coordinators.transactions import NodeProducer
from tests.support.coordinators.txn_partitions import FakeCoordinator
from tests.support.nodes.peer_brokers import PeerWorld, among_peers, peer_of
from tests.support.nodes.sim_node import SimNode
from tests.support.quorum.images import with_partitions

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class LocalCoordinator(FakeCoordinator):
    """The coordinator of this broker."""

    def partition_of(self, transactional_id: str) -> int:
        return partition_for(transactional_id, 4)


def id_at(partition: int) -> str:
    """Return a transactional id of a partition."""
    return next(name for name in map(str, range(100)) if partition_for(name, 4) == partition)


HERE, ON_2, ON_3, NOWHERE = map(id_at, range(4))


class AdderWorld:
    """A broker whose peers coordinate transactions."""

    def __init__(self, world: PeerWorld) -> None:
        self.world = world
        partitions = ({"replicas": (1,)}, {"replicas": (2,)}, {"replicas": (3,)}, {"replicas": (2,), "leader": -1})
        world.image = with_partitions(world.image, "__transaction_state", *partitions)
        self.local = LocalCoordinator()
        self.answers: dict[TopicPartition, ErrorCode] = {}
        for peer in world.peers.values():
            peer.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = self.answer
        self.adder = ClusterPartitionAdder(
            cast("TransactionCoordinator", self.local),
            world.others,
        )

    def answer(self, request: ReceivedRequest) -> Any:
        types = request.types
        rows = [
            types.new(
                "AddPartitionsToTxnResult",
                transactional_id=each.transactional_id,
                topic_results=[
                    types.new(
                        "AddPartitionsToTxnTopicResult",
                        name=topic.name,
                        results_by_partition=[
                            types.new(
                                "AddPartitionsToTxnPartitionResult",
                                partition_index=index,
                                partition_error_code=self.answers.get(TopicPartition(topic.name, index), 0),
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.body.transactions
        ]
        return types.message(throttle_time=0, error_code=ErrorCode.none, results_by_transaction=rows)

    def ask(
        self, transactional_id: str, *places: TopicPartition, epoch: int = 3, verify_only: bool = True
    ) -> asyncio.Future[dict[TopicPartition, ErrorCode]]:
        asking = self.adder.add_partitions(transactional_id, 7, epoch, places, verify_only=verify_only)
        return asyncio.ensure_future(asking)

    def asked(self, node_id: int = 2) -> list[Any]:
        """Return the transactions of every request to a broker."""
        return [each.body.transactions for each in self.world.peers[node_id].asked(ApiKey.ADD_PARTITIONS_TO_TXN)]

    async def occupy(self) -> asyncio.Future[dict[TopicPartition, ErrorCode]]:
        """Let a first question be in flight for a while."""
        self.world.peers[2].answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda request: Later(100, self.answer(request))
        first = self.ask(ON_2, T0)
        await asyncio.sleep(0.05)
        return first


def with_adder(test: Callable[[AdderWorld], Any]) -> None:
    async def main(world: PeerWorld) -> None:
        await test(AdderWorld(world))

    among_peers(main)


@pytest.mark.parametrize("verify_only", [True, False])
@run_with(with_adder)
async def test_the_coordinator_of_another_broker_is_asked(world: AdderWorld, /, *, verify_only: bool) -> None:
    world.answers[T1] = ErrorCode.transaction_abortable
    verdicts = await world.ask(ON_2, T0, T1, verify_only=verify_only)
    assert verdicts == {T0: ErrorCode.none, T1: ErrorCode.transaction_abortable}
    ((asked,),) = world.asked()
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (ON_2, 7, 3)
    assert asked.verify_only is verify_only
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("t", (0, 1))]
    assert world.world.peers[2].requests[-1].version == 5


@run_with(with_adder)
async def test_the_own_coordinator_is_asked_without_a_socket(world: AdderWorld, /) -> None:
    world.local.answers = [ErrorCode.producer_fenced]
    assert await world.ask(HERE, T0) == {T0: ErrorCode.producer_fenced}
    assert world.local.asked[0].transactional_id == HERE
    assert world.asked() == []


@run_with(with_adder)
async def test_a_transaction_without_a_coordinator(world: AdderWorld, /) -> None:
    assert await world.ask(NOWHERE, T0) == {T0: ErrorCode.coordinator_not_available}


@run_with(with_adder)
async def test_questions_that_come_meanwhile_share_a_request(world: AdderWorld, /) -> None:
    first = await world.occupy()
    others = [name for name in map(str, range(100)) if partition_for(name, 4) == 1 and name != ON_2][:3]
    asking = [world.ask(name, T0) for name in others]
    for each in (first, *asking):
        assert await each == {T0: ErrorCode.none}
    assert [[each.transactional_id for each in request] for request in world.asked()] == [[ON_2], others]


@run_with(with_adder)
async def test_questions_of_one_producer_become_one(world: AdderWorld, /) -> None:
    world.answers[T1] = ErrorCode.transaction_abortable
    await world.occupy()
    a, b = world.ask(ON_2, T0), world.ask(ON_2, T1)
    assert await a == {T0: ErrorCode.none}
    assert await b == {T1: ErrorCode.transaction_abortable}
    assert [len(request) for request in world.asked()] == [1, 1]


@run_with(with_adder)
async def test_of_two_producers_the_older_is_fenced(world: AdderWorld, /) -> None:
    await world.occupy()
    waiting = world.ask(ON_2, T0, epoch=4)
    await asyncio.sleep(0)
    assert await world.ask(ON_2, T0, epoch=3) == {T0: ErrorCode.invalid_producer_epoch}
    newer = world.ask(ON_2, T0, epoch=5)
    assert await waiting == {T0: ErrorCode.invalid_producer_epoch}
    assert await newer == {T0: ErrorCode.none}
    assert [request[0].producer_epoch for request in world.asked()] == [3, 5]


@run_with(with_adder)
async def test_an_earlier_question_of_another_kind_is_asked_again_by_its_client(world: AdderWorld, /) -> None:
    await world.occupy()
    waiting = world.ask(ON_2, T0, verify_only=True)
    await asyncio.sleep(0)
    adding = world.ask(ON_2, T0, verify_only=False)
    assert await waiting == {T0: ErrorCode.network_exception}
    assert await adding == {T0: ErrorCode.none}


@run_with(with_adder)
async def test_a_coordinator_that_is_not_reached(world: AdderWorld, /) -> None:
    def disconnect(_request: ReceivedRequest) -> Any:
        raise DisconnectError

    world.world.peers[2].answers[ApiKey.ADD_PARTITIONS_TO_TXN] = disconnect
    assert await world.ask(ON_2, T0) == {T0: ErrorCode.network_exception}
    world.world.peers[2].answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda _request: NO_ANSWER
    assert await world.ask(ON_2, T0) == {T0: ErrorCode.network_exception}
    world.world.peers[2].answers[ApiKey.ADD_PARTITIONS_TO_TXN] = world.answer
    assert await world.ask(ON_2, T0) == {T0: ErrorCode.none}


@run_with(with_adder)
async def test_a_question_is_answered_though_the_sending_fails_unexpectedly(
    world: AdderWorld, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[asyncio.Future[Any]] = []

    def spawn(sending: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        failed.append(asyncio.ensure_future(sending))
        return failed[-1]

    monkeypatch.setattr(world.adder._outboxes, "_spawn", spawn)
    monkeypatch.setattr(world.adder, "_others", replace(world.world.others, timeout_ms=lambda: 1 // 0))
    assert await asyncio.wait_for(world.ask(ON_2, T0), 10) == {T0: ErrorCode.network_exception}
    assert [type(each.exception()) for each in failed] == [ZeroDivisionError]


@pytest.mark.parametrize(
    ("error_code", "reported"),
    [
        (ErrorCode.cluster_authorization_failed, ErrorCode.invalid_txn_state),
        (ErrorCode.unknown_server_error, ErrorCode.unknown_server_error),
    ],
)
@run_with(with_adder)
async def test_a_request_that_is_refused_as_a_whole(
    world: AdderWorld, /, error_code: ErrorCode, reported: ErrorCode
) -> None:
    world.world.peers[2].answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda request: request.types.message(
        throttle_time=0, error_code=error_code, results_by_transaction=()
    )
    assert await world.ask(ON_2, T0) == {T0: reported}


@run_with(with_adder)
async def test_a_coordinator_that_does_not_know_the_question_refuses_nothing(world: AdderWorld, /) -> None:
    world.world.peers[2].versions[ApiKey.ADD_PARTITIONS_TO_TXN] = (0, 3)
    assert await world.ask(ON_2, T0) == {T0: ErrorCode.none}
    assert world.asked() == []


@run_with(with_adder)
async def test_an_answer_without_the_transaction_is_none(world: AdderWorld, /) -> None:
    world.world.peers[2].answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda request: request.types.message(
        throttle_time=0, error_code=ErrorCode.none, results_by_transaction=()
    )
    assert await world.ask(ON_2, T0) == {T0: ErrorCode.network_exception}


def test_a_node_answers_for_its_transactions(node: SimNode) -> None:
    node.create_topic("t", 2)
    producer = NodeProducer(node)
    producer.init()
    others = peer_of(node)
    adder = ClusterPartitionAdder(
        node.context.transactions,
        others,
    )

    def ask(*places: TopicPartition, epoch: int = producer.epoch, verify_only: bool) -> dict[TopicPartition, ErrorCode]:
        asking = adder.add_partitions("id", producer.producer_id, epoch, places, verify_only=verify_only)
        return node.run(asking)

    assert ask(T0, verify_only=True) == {T0: ErrorCode.transaction_abortable}
    assert ask(T0, verify_only=False) == {T0: ErrorCode.none}
    assert ask(T0, T1, verify_only=True) == {T0: ErrorCode.none, T1: ErrorCode.transaction_abortable}
    assert ask(T0, epoch=producer.epoch + 1, verify_only=True) == {T0: ErrorCode.producer_fenced}
    node.run(others.brokers.close())
