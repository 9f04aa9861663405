"""TxnOffsetCommit over the wire, and what becomes of the offsets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.broker.groups.shard import OFFSETS_TOPIC
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.coordinators.txn_partitions import (
    PRODUCER_ID,
    TRANSACTIONAL_ID,
    FakeCoordinator,
    end,
    fake_coordinator,
)
from tests.support.moves.partitions import HeldWatermark
from tests.support.nodes.sim_node import SimNode, row, versions_of


def commit(node: SimNode, offset: int = 5, *, version: int = 5, **fields: Any) -> ErrorCode:
    partition = row(
        "TxnOffsetCommitRequestPartition",
        partition_index=fields.pop("partition", 0),
        committed_offset=offset,
        committed_leader_epoch=2,
        committed_metadata=fields.pop("metadata", "m"),
    )
    defaults = {
        "transactional_id": TRANSACTIONAL_ID,
        "group_id": "g",
        "producer_id": PRODUCER_ID,
        "producer_epoch": 0,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [row("TxnOffsetCommitRequestTopic", name=fields.pop("topic", "t"), partitions=[partition])],
    }
    answer = node.ask(ApiKey.TXN_OFFSET_COMMIT, version, **{**defaults, **fields})
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def place_of(node: SimNode) -> tuple[str, int]:
    return OFFSETS_TOPIC, node.context.groups.partition_of("g")


def end_here(node: SimNode, *, commit: bool, epoch: int = 1, producer_id: int = PRODUCER_ID) -> None:
    codes = end(node, [place_of(node)], commit=commit, epoch=epoch, producer_id=producer_id)
    assert codes == [ErrorCode.none]


@pytest.fixture
def coordinator(node: SimNode) -> FakeCoordinator:
    node.create_topic("t", 2)
    find_coordinator(node)
    return fake_coordinator(node)


@pytest.mark.parametrize("version", versions_of(ApiKey.TXN_OFFSET_COMMIT))
def test_offsets_count_when_the_transaction_commits(node: SimNode, coordinator: FakeCoordinator, version: int) -> None:
    assert commit(node, 7, version=version) is ErrorCode.none
    assert commit(node, 8, version=version) is ErrorCode.none
    (asked,) = coordinator.asked
    assert asked == (TRANSACTIONAL_ID, PRODUCER_ID, 0, (place_of(node),), version < 5)
    assert fetch_offset(node) == -1
    assert group_states(node) == {"g": ("Empty", "classic")}
    end_here(node, commit=True)
    assert fetch_offset(node) == 8


def test_offsets_of_an_aborted_transaction_are_dropped(node: SimNode, coordinator: FakeCoordinator) -> None:
    commit(node)
    end_here(node, commit=False)
    assert fetch_offset(node) == -1
    assert not node.context.groups.shard_of("g").shard.offsets.has_pending("g")
    assert len(coordinator.asked) == 1


def test_the_batch_is_as_kafka_writes_it(node: SimNode, coordinator: FakeCoordinator) -> None:
    commit(node)
    header = parse_header(node.fetch(*place_of(node)[:1], partition=place_of(node)[1]).records)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER_ID, 0, 0)
    assert coordinator.asked


@pytest.mark.parametrize("commits", [True, False])
def test_pending_offsets_survive_a_restart(node: SimNode, coordinator: FakeCoordinator, commits: bool) -> None:
    commit(node, 7)
    node.restart()
    node.advance(100)
    assert node.context.groups.shard_of("g").shard.offsets.has_pending("g")
    end_here(node, commit=commits)
    expected = 7 if commits else -1
    assert fetch_offset(node) == expected
    node.restart()
    node.advance(100)
    assert fetch_offset(node) == expected
    assert coordinator.asked


@pytest.mark.parametrize("restart", [False, True])
def test_the_later_record_counts_whenever_its_transaction_ends(
    node: SimNode, coordinator: FakeCoordinator, restart: bool
) -> None:
    commit(node, 1, producer_id=1)
    commit(node, 2, producer_id=2)
    NodeMember(node).commit(offset=3)
    commit(node, 4, producer_id=4)
    end_here(node, commit=True, producer_id=4)
    end_here(node, commit=True, producer_id=1)
    if restart:
        node.restart()
        node.advance(100)
    assert node.context.groups.shard_of("g").shard.offsets.is_pending("g", ("t", 0))
    end_here(node, commit=True, producer_id=2)
    assert fetch_offset(node) == 4
    assert len(coordinator.asked) == 3


def test_what_does_not_exist_is_reported(node: SimNode, coordinator: FakeCoordinator) -> None:
    assert commit(node, topic="nope") is ErrorCode.unknown_topic_or_partition
    assert commit(node, partition=9) is ErrorCode.unknown_topic_or_partition
    assert commit(node, metadata="x" * 4097) is ErrorCode.offset_metadata_too_large
    assert commit(node, group_id="") is ErrorCode.invalid_group_id
    assert not coordinator.asked


@pytest.mark.parametrize(
    ("version", "answer", "reported"),
    [
        (3, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (4, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (5, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (5, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
        (5, ErrorCode.network_exception, ErrorCode.coordinator_load_in_progress),
        (1, ErrorCode.network_exception, ErrorCode.coordinator_not_available),
        (1, ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available),
    ],
)
def test_a_refusal_of_the_coordinator_is_reported(
    node: SimNode, coordinator: FakeCoordinator, version: int, answer: ErrorCode, reported: ErrorCode
) -> None:
    coordinator.answers = [answer]
    assert commit(node, version=version) is reported
    assert not node.context.groups.shard_of("g").shard.offsets.has_pending("g")


def test_an_answer_of_an_ended_transaction_lets_no_offset_in(node: SimNode, coordinator: FakeCoordinator) -> None:
    shard = node.context.groups.shard_of("g")
    coordinator.open.clear()
    state = shard.partition.log.producer_state

    async def end_meanwhile() -> None:
        while not coordinator.asked:
            await asyncio.sleep(0.001)
        state.verifications.clear()
        coordinator.open.set()

    task = node.loop.create_task(end_meanwhile())
    assert commit(node) is ErrorCode.invalid_txn_state
    node.run(asyncio.wait_for(task, 1))


def test_members_commit_in_their_generation_only(node: SimNode, coordinator: FakeCoordinator) -> None:
    member = NodeMember(node)
    member.stable()
    known: dict[str, Any] = {"member_id": member.member_id, "generation_id": member.generation}
    assert commit(node, **known) is ErrorCode.none
    assert commit(node, **{**known, "generation_id": 9}) is ErrorCode.illegal_generation
    assert commit(node, **{**known, "member_id": "x"}) is ErrorCode.unknown_member_id
    assert commit(node, group_instance_id="i", **known) is ErrorCode.unknown_member_id
    # Clients before version 3 do not say who they are.
    assert commit(node, version=2) is ErrorCode.none
    assert commit(node, group_id="other", generation_id=1) is ErrorCode.illegal_generation
    assert coordinator.asked


def test_groups_of_other_kinds(node: SimNode, coordinator: FakeCoordinator) -> None:
    groups = node.context.groups.shard_of("g").shard.groups
    share = groups["g"] = OpaqueGroup("g", OpaqueType.SHARE)
    share.replay(b"k", "Metadata", deleted=False)
    assert commit(node) is ErrorCode.group_id_not_found
    assert len(coordinator.asked) == 1


@pytest.mark.parametrize(("version", "asked"), [(4, []), (5, [False])])
def test_without_verification_only_clients_that_add_groups_by_writing_go_through_the_coordinator(
    node: SimNode, coordinator: FakeCoordinator, version: int, asked: list[bool]
) -> None:
    assert node.set_configs(4, "", transaction_partition_verification_enable="false") == 0
    assert commit(node, version=version) is ErrorCode.none
    assert [each.verify_only for each in coordinator.asked] == asked


def test_a_group_with_pending_offsets_can_be_deleted(node: SimNode, coordinator: FakeCoordinator) -> None:
    commit(node)
    assert node.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"]).results[0].error_code is ErrorCode.none
    end_here(node, commit=True)
    assert fetch_offset(node) == -1
    node.restart()
    node.advance(100)
    assert fetch_offset(node) == -1
    assert coordinator.asked


def test_pending_offsets_can_be_deleted(node: SimNode, coordinator: FakeCoordinator) -> None:
    commit(node)
    topics = [
        row(
            "OffsetDeleteRequestTopic",
            name="t",
            partitions=[row("OffsetDeleteRequestPartition", partition_index=0)],
        )
    ]
    assert node.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics).error_code is ErrorCode.none
    end_here(node, commit=True)
    assert fetch_offset(node) == -1
    assert coordinator.asked


def test_offsets_do_not_expire_while_a_transaction_may_change_them() -> None:
    with SimNode({"offsets.retention.minutes": "1"}) as node:
        node.create_topic("t")
        find_coordinator(node)
        fake_coordinator(node)
        NodeMember(node).commit(offset=3)
        commit(node, 4)
        node.advance(61_000)
        node.run(node.context.groups.expire_offsets())
        assert "g" in group_states(node)
        end_here(node, commit=False)
        assert fetch_offset(node) == 3
        node.run(node.context.groups.expire_offsets())
        node.advance(100)
        assert group_states(node) == {}


def test_offsets_that_take_too_long_are_pending_later(node: SimNode, coordinator: FakeCoordinator) -> None:
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    assert commit(node, 7) is ErrorCode.coordinator_not_available
    offsets = node.context.groups.shard_of("g").shard.offsets
    assert not offsets.has_pending("g")
    held.let_go()
    assert offsets.has_pending("g")
    end_here(node, commit=True)
    assert fetch_offset(node) == 7
    assert len(coordinator.asked) == 1


@pytest.mark.parametrize(
    ("reported", "code"),
    [
        (ErrorCode.network_exception, ErrorCode.coordinator_load_in_progress),
        (ErrorCode.coordinator_not_available, ErrorCode.coordinator_not_available),
    ],
)
def test_a_transaction_coordinator_that_is_away(
    node: SimNode, coordinator: FakeCoordinator, reported: ErrorCode, code: ErrorCode
) -> None:
    coordinator.answers = [reported]
    assert commit(node) is code
