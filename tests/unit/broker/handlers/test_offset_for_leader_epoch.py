"""OffsetForLeaderEpoch over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of
from tests.support.storage.replicas import give_followers


def end_of(
    node: SimNode, epoch: int, *, current: int = -1, topic: str = "t", version: int = 4
) -> tuple[ErrorCode, int, int]:
    wanted = row("OffsetForLeaderPartition", partition=0, current_leader_epoch=current, leader_epoch=epoch)
    rows = [row("OffsetForLeaderTopic", topic=topic, partitions=[wanted])]
    answer = node.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-2, topics=rows)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.fixture
def aged(node: SimNode) -> SimNode:
    """Two records of epoch 0, one of epoch 2."""
    node.create_topic("t")
    node.produce("t", batch(b"a", b"b"))
    node.restart()
    node.produce("t", batch(b"c"))
    return node


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_every_version_reports_where_an_epoch_ended(aged: SimNode, version: int) -> None:
    assert end_of(aged, 0, version=version) == (ErrorCode.none, 0, 2)
    assert end_of(aged, 2, version=version) == (ErrorCode.none, 2, 3)


def test_an_epoch_between_two_ends_with_the_one_before(aged: SimNode) -> None:
    assert end_of(aged, 1) == (ErrorCode.none, 0, 2)


def test_an_epoch_of_the_future_is_undefined(aged: SimNode) -> None:
    assert end_of(aged, 9) == (ErrorCode.none, -1, -1)


def test_faults_have_their_own_codes(aged: SimNode) -> None:
    assert end_of(aged, 0, topic="nope") == (ErrorCode.unknown_topic_or_partition, -1, -1)
    assert end_of(aged, 0, current=0) == (ErrorCode.fenced_leader_epoch, -1, -1)
    assert end_of(aged, 0, current=3) == (ErrorCode.unknown_leader_epoch, -1, -1)


def test_replicas_are_notified_of_what_is_not_committed_yet(aged: SimNode) -> None:
    give_followers(aged, "t")
    aged.produce("t", batch(b"d"), acks=1)
    partition = aged.context.partitions.by_name("t", 0)
    assert partition.log.high_watermark == 3
    assert end_of(aged, 3, current=3) == (ErrorCode.none, 3, 4)
    give_followers(aged, "t", leader=2)
    assert end_of(aged, 3, current=4) == (ErrorCode.not_leader_or_follower, -1, -1)
