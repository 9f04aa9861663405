"""Markers go to the leaders of their partitions, wherever these are."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from crabka.broker.transactions.cluster_markers import ClusterMarkerWriter
from crabka.broker.transactions.markers import MarkerDelivery
from crabka.broker.transactions.ports import TxnMarker
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError, Later, ReceivedRequest
from tests.support.coordinators.transactions import ControlledMarkers
from tests.support.nodes.peer_brokers import PeerWorld, among_peers, peer_of
from tests.support.nodes.sim_node import SimNode, read_records
from tests.support.quorum.images import with_partitions

HERE, ON_2, ON_3, NOWHERE = (TopicPartition("t", index) for index in range(4))
GONE = TopicPartition("gone", 0)


class MarkerWorld:
    """A writer among peers that note every marker and answer as a test says."""

    def __init__(self, world: PeerWorld) -> None:
        self.world = world
        leaders = ({"replicas": (1, 2)}, {"replicas": (2, 1)}, {"replicas": (3, 1)}, {"replicas": (2,), "leader": -1})
        world.image = with_partitions(world.image, "t", *leaders)
        self.local = ControlledMarkers()
        self.answers: dict[TopicPartition, ErrorCode] = {}
        for peer in world.peers.values():
            peer.answers[ApiKey.WRITE_TXN_MARKERS] = self.answer
        self.writer = ClusterMarkerWriter(
            self.local,
            world.others,
        )

    def answer(self, request: ReceivedRequest) -> Any:
        types = request.types
        rows = [
            types.new(
                "WritableTxnMarkerResult",
                producer_id=marker.producer_id,
                topics=[
                    types.new(
                        "WritableTxnMarkerTopicResult",
                        name=topic.name,
                        partitions=[
                            types.new(
                                "WritableTxnMarkerPartitionResult",
                                partition_index=index,
                                error_code=self.answers.get(TopicPartition(topic.name, index), ErrorCode.none),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.body.markers
        ]
        return types.message(markers=rows)

    async def write(self, *markers: TxnMarker) -> list[dict[TopicPartition, ErrorCode]]:
        return await self.writer.write(markers)

    def sent_to(self, node_id: int) -> list[list[int]]:
        """Return the producers of every request to a broker."""
        asked = self.world.peers[node_id].asked(ApiKey.WRITE_TXN_MARKERS)
        return [[marker.producer_id for marker in request.body.markers] for request in asked]


def marker(*places: TopicPartition, producer_id: int = 7, coordinator_epoch: int = 4) -> TxnMarker:
    return TxnMarker(producer_id, 3, coordinator_epoch, commit=True, partitions=places, transaction_version=2)


def with_markers(test: Any) -> None:
    async def main(world: PeerWorld) -> None:
        await test(MarkerWorld(world))

    among_peers(main)


@run_with(with_markers)
async def test_markers_are_grouped_by_leader(world: MarkerWorld, /) -> None:
    (results,) = await world.write(marker(HERE, ON_2, ON_3))
    assert results == dict.fromkeys((HERE, ON_2, ON_3), ErrorCode.none)
    assert [each.partitions for each in world.local.written] == [(HERE,)]
    (request,) = world.world.peers[2].asked(ApiKey.WRITE_TXN_MARKERS)
    assert request.version == 2
    (sent,) = request.body.markers
    reported = (sent.producer_id, sent.producer_epoch, sent.coordinator_epoch, sent.transaction_result)
    assert reported == (7, 3, 4, True)
    assert sent.transaction_version == 2
    assert [(topic.name, topic.partition_indexes) for topic in sent.topics] == [("t", (1,))]


@run_with(with_markers)
async def test_partitions_without_a_leader_and_without_a_topic(world: MarkerWorld, /) -> None:
    (results,) = await world.write(marker(NOWHERE, GONE))
    assert results == {
        NOWHERE: ErrorCode.not_leader_or_follower,
        GONE: ErrorCode.unknown_topic_or_partition,
    }
    assert world.sent_to(2) == []


@run_with(with_markers)
async def test_transactions_that_end_meanwhile_share_a_request(world: MarkerWorld, /) -> None:
    world.world.peers[2].answers[ApiKey.WRITE_TXN_MARKERS] = lambda request: Later(100, world.answer(request))
    first = asyncio.ensure_future(world.write(marker(ON_2, producer_id=1)))
    await asyncio.sleep(0.05)
    others = [asyncio.ensure_future(world.write(marker(ON_2, producer_id=each))) for each in (2, 3, 4)]
    for each in (first, *others):
        assert await each == [{ON_2: ErrorCode.none}]
    assert world.sent_to(2) == [[1], [2, 3, 4]]
    assert world.world.peers[2].connection_count == 1


@run_with(with_markers)
async def test_a_marker_of_a_new_coordinator_takes_the_place_of_one_that_waits(world: MarkerWorld, /) -> None:
    world.world.peers[2].answers[ApiKey.WRITE_TXN_MARKERS] = lambda request: Later(100, world.answer(request))
    first = asyncio.ensure_future(world.write(marker(ON_2, producer_id=1)))
    await asyncio.sleep(0.05)
    old = asyncio.ensure_future(world.write(marker(ON_2, coordinator_epoch=4)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    new = asyncio.ensure_future(world.write(marker(ON_2, coordinator_epoch=5)))
    assert await old == [{ON_2: ErrorCode.transaction_coordinator_fenced}]
    assert await new == [{ON_2: ErrorCode.none}]
    await first
    last = world.world.peers[2].asked(ApiKey.WRITE_TXN_MARKERS)[-1]
    assert [each.coordinator_epoch for each in last.body.markers] == [5]


@run_with(with_markers)
async def test_a_broker_that_is_not_reached(world: MarkerWorld, /) -> None:
    def disconnect(_request: ReceivedRequest) -> Any:
        raise DisconnectError

    world.world.peers[2].answers[ApiKey.WRITE_TXN_MARKERS] = disconnect
    (results,) = await world.write(marker(ON_2, ON_3))
    assert results == {ON_2: ErrorCode.network_exception, ON_3: ErrorCode.none}


@run_with(with_markers)
async def test_a_marker_is_answered_though_the_sending_fails_unexpectedly(
    world: MarkerWorld, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[asyncio.Future[Any]] = []

    def spawn(sending: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        failed.append(asyncio.ensure_future(sending))
        return failed[-1]

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.writer._outboxes, "_spawn", spawn)
    monkeypatch.setattr(world.writer._outboxes, "_send", fail)
    (results,) = await asyncio.wait_for(world.write(marker(ON_2)), 10)
    assert results == {ON_2: ErrorCode.network_exception}
    assert [type(each.exception()) for each in failed] == [ZeroDivisionError]


@run_with(with_markers)
async def test_a_partition_that_the_answer_leaves_out_is_not_done(world: MarkerWorld, /) -> None:
    world.world.peers[2].answers[ApiKey.WRITE_TXN_MARKERS] = lambda request: request.types.message(markers=[])
    assert await world.write(marker(ON_2)) == [{ON_2: ErrorCode.network_exception}]


def delivery(world: MarkerWorld) -> MarkerDelivery:
    return MarkerDelivery(world.writer, lambda topic: topic in world.world.image.topics.by_name)


@run_with(with_markers)
async def test_a_marker_follows_the_leader(world: MarkerWorld, /) -> None:
    world.answers[ON_2] = ErrorCode.not_leader_or_follower
    done = asyncio.ensure_future(delivery(world).deliver(marker(ON_2, ON_3), lambda: True))
    await asyncio.sleep(0.35)
    assert not done.done()
    tried = len(world.sent_to(2))
    assert tried > 1
    moved: Sequence[dict[str, Any]] = [{"replicas": (1, 2)}, {"replicas": (3, 2)}, {"replicas": (3, 1)}]
    world.world.image = with_partitions(world.world.image, "t", *moved)
    world.answers.clear()
    assert await done
    assert len(world.sent_to(2)) <= tried + 1
    assert world.sent_to(3)[-1] == [7]
    last = world.world.peers[3].asked(ApiKey.WRITE_TXN_MARKERS)[-1].body.markers[0]
    # The partition that has the marker does not get it again.
    assert [(topic.name, topic.partition_indexes) for topic in last.topics] == [("t", (1,))]


@run_with(with_markers)
async def test_partitions_of_a_deleted_topic_are_done(world: MarkerWorld, /) -> None:
    assert await delivery(world).deliver(marker(GONE, ON_2), lambda: True)


@pytest.mark.parametrize("error_code", [ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch])
@run_with(with_markers)
async def test_a_fenced_coordinator_stops(world: MarkerWorld, /, error_code: ErrorCode) -> None:
    world.answers[ON_2] = error_code
    assert not await delivery(world).deliver(marker(ON_2, ON_3), lambda: True)
    assert world.sent_to(2) == [[7]]


@run_with(with_markers)
async def test_nothing_is_sent_again_once_the_coordinator_has_gone(world: MarkerWorld, /) -> None:
    world.answers[ON_2] = ErrorCode.not_enough_replicas
    wanted = [True]
    done = asyncio.ensure_future(delivery(world).deliver(marker(ON_2), lambda: wanted[0]))
    await asyncio.sleep(0.25)
    wanted[0] = False
    assert not await done
    tried = len(world.sent_to(2))
    await asyncio.sleep(1)
    assert len(world.sent_to(2)) == tried


def test_a_node_takes_the_markers_of_another_broker(node: SimNode) -> None:
    node.create_topic("t")
    others = peer_of(node)
    writer = ClusterMarkerWriter(
        ControlledMarkers(),
        others,
    )
    markers = [marker(HERE, producer_id=7), marker(HERE, GONE, producer_id=8)]
    results = node.run(writer.write(markers))
    assert results == [{HERE: ErrorCode.none}, {HERE: ErrorCode.none, GONE: ErrorCode.unknown_topic_or_partition}]
    assert node.run(writer.write([marker(HERE, coordinator_epoch=3)])) == [
        {HERE: ErrorCode.transaction_coordinator_fenced}
    ]
    assert len(read_records(node.fetch("t").records)) == 2
    node.run(others.brokers.close())
