"""Which partition keeps what, and when it is here."""

from __future__ import annotations

import pytest

from crabka.broker.coordinators import shards
from crabka.broker.coordinators.shards import java_hash, partition_for
from crabka.errors import CorruptDataError, OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator
from tests.support.coordinators.transactions import NodeProducer
from tests.support.moves.partitions import NO_LEADER, HeldWatermark, lead
from tests.support.nodes.sim_node import SimNode


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("a", 97), ("ab", 3105), ("polygenelubricants", -(2**31)), ("\U0001f980", 1772802)]
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("group-classic", 1), ("group-consumer", 1), ("group-txn", 1), ("group-simple", 2), ("group-share", 0)],
)
def test_groups_lie_where_kafka_put_them(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 3) == partition


def test_the_lowest_hash_has_no_absolute_value() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def commit_and_hold(node: SimNode) -> HeldWatermark:
    """Let a commit be in the log of the leader and nowhere else."""
    node.create_topic("t")
    find_coordinator(node)
    assert NodeMember(node).commit(offset=5) is ErrorCode.none
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    assert NodeMember(node).commit(offset=6) is ErrorCode.coordinator_not_available
    return held


def error_of_fetch(node: SimNode) -> ErrorCode:
    try:
        node.context.groups.shard_of("g")
    except OperationError as error:
        return error.error_code
    return ErrorCode.none


def test_a_new_leader_serves_when_all_that_it_holds_is_replicated(node: SimNode) -> None:
    held = commit_and_hold(node)
    lead(node, held.partition, NO_LEADER)
    assert error_of_fetch(node) is ErrorCode.not_coordinator
    lead(node, held.partition, 1)
    node.advance(60_000)
    assert error_of_fetch(node) is ErrorCode.coordinator_load_in_progress
    held.advance()
    assert error_of_fetch(node) is ErrorCode.none
    assert fetch_offset(node) == 6


def test_a_leader_that_resigns_before_that_serves_no_request(node: SimNode) -> None:
    held = commit_and_hold(node)
    lead(node, held.partition, NO_LEADER)
    lead(node, held.partition, 1)
    lead(node, held.partition, NO_LEADER)
    held.advance()
    assert error_of_fetch(node) is ErrorCode.not_coordinator
    lead(node, held.partition, 1)
    node.advance(10)
    assert fetch_offset(node) == 6


def test_only_shards_that_are_led_here_are_listed(node: SimNode) -> None:
    find_coordinator(node)
    hosted = node.context.groups.shard_of("g")
    assert hosted in list(node.context.groups.shards)
    hosted.partition.retire(ErrorCode.kafka_storage_error)
    assert hosted not in list(node.context.groups.shards)


def test_groups_go_on_when_their_leader_is_elected_again(node: SimNode) -> None:
    find_coordinator(node)
    hosted = node.context.groups.shard_of("g")
    lead(node, hosted.partition, 1)
    assert node.context.groups.shard_of("g") is hosted


def test_transactions_begin_anew_when_their_leader_is_elected_again(node: SimNode) -> None:
    producer = NodeProducer(node)
    producer.init()
    hosted, _ = node.context.transactions.find("id")
    assert hosted.leader_epoch == hosted.partition.leader_epoch
    lead(node, hosted.partition, 1)
    node.advance(10)
    again, transaction = node.context.transactions.find("id")
    assert again is not hosted
    assert not hosted.is_active
    assert again.leader_epoch == hosted.leader_epoch + 1
    assert transaction is not None
    assert transaction.current.producer_id == producer.producer_id


@pytest.mark.parametrize("failure", [CorruptDataError("here", "broken"), KeyError("a bug")])
def test_a_shard_that_cannot_be_loaded_is_tried_again_in_the_next_epoch(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    held = commit_and_hold(node)
    held.let_go()
    lead(node, held.partition, NO_LEADER)

    async def fail(*_arguments: object, **_options: object) -> int:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(shards, "replay_log", fail)
        lead(node, held.partition, 1)
        node.advance(10)
    assert error_of_fetch(node) is ErrorCode.coordinator_load_in_progress
    lead(node, held.partition, 1)
    node.advance(10)
    assert fetch_offset(node) == 6
