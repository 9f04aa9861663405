"""What the records of a partition say."""

from __future__ import annotations

import pytest

from crabka.broker.coordinators.shards import partition_for
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.membership import ClassicSettings, GroupState
from crabka.broker.groups.messages import GroupSnapshot, MemberSnapshot
from crabka.broker.groups.offsets import CommittedOffset
from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.broker.groups.records import GroupRecord, OffsetRecord, OpaqueRecord, group_key, offset_key
from crabka.broker.groups.shard import GroupShard
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, subscription
from tests.support.nodes.sim_node import SimNode

PLACE = ("t", 0)
COMMITTED = CommittedOffset(5, -1, "", 1000)
MEMBER = MemberSnapshot("m", None, "c", "/h", 1, 1, subscription("t"), b"")
RETENTION_MS = 100


def shard(*records: OffsetRecord | GroupRecord | OpaqueRecord) -> GroupShard:
    made = GroupShard(ClassicSettings())
    for record in records:
        made.replay(record, 0)
    return made


def test_an_offset_makes_a_simple_group() -> None:
    made = shard(OffsetRecord("g", PLACE, COMMITTED))
    group = made.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.is_empty
    made.replay(OffsetRecord("g", PLACE, None), 0)
    assert made.offsets.get("g", PLACE) is None


def test_offsets_of_a_transaction_are_pending() -> None:
    made = shard()
    made.replay(OffsetRecord("g", PLACE, COMMITTED), 0, 7)
    assert made.offsets.is_pending("g", PLACE)


def test_the_last_record_of_a_group_counts() -> None:
    made = shard(
        GroupRecord("g", GroupSnapshot("consumer", 1, "range", "m", 1, (MEMBER,))),
        GroupRecord("g", GroupSnapshot("consumer", 2, None, None, 2)),
    )
    group = made.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.membership.generation) == (GroupState.EMPTY, 2)
    made.replay(GroupRecord("g", None), 0)
    assert made.groups == {}


def test_opaque_groups_live_as_long_as_their_records() -> None:
    def record(*, deleted: bool) -> OpaqueRecord:
        return OpaqueRecord("g", OpaqueType.SHARE, "Metadata", b"k", deleted=deleted)

    made = shard(record(deleted=True))
    assert made.groups == {}
    made.replay(record(deleted=False), 0)
    assert isinstance(made.groups["g"], OpaqueGroup)
    assert made.tombstones("g") == [(b"k", None)]
    made.replay(record(deleted=True), 0)
    assert made.groups == {}


def test_tombstones_name_offsets_and_group() -> None:
    made = shard(OffsetRecord("g", PLACE, COMMITTED))
    assert made.tombstones("g") == [(offset_key("g", PLACE), None), (group_key("g"), None)]
    made.forget("g")
    assert made.tombstones("g") == []


def test_a_simple_groups_offsets_age_from_their_commit() -> None:
    made = shard(OffsetRecord("g", PLACE, COMMITTED))
    assert made.expired("g", 1000 + RETENTION_MS - 1, RETENTION_MS) == ([], False)
    assert made.expired("g", 1000 + RETENTION_MS, RETENTION_MS) == ([PLACE], True)


def test_an_empty_groups_offsets_age_from_when_it_became_empty() -> None:
    made = shard(GroupRecord("g", GroupSnapshot("consumer", 2, None, None, 5000)), OffsetRecord("g", PLACE, COMMITTED))
    assert made.expired("g", 5000, RETENTION_MS) == ([], False)
    assert made.expired("g", 5000 + RETENTION_MS, RETENTION_MS) == ([PLACE], True)


def test_with_members_only_unread_topics_expire() -> None:
    made = shard(
        GroupRecord("g", GroupSnapshot("consumer", 1, "range", "m", 1, (MEMBER,))),
        OffsetRecord("g", PLACE, COMMITTED),
        OffsetRecord("g", ("u", 0), COMMITTED),
    )
    assert made.expired("g", 9000, RETENTION_MS) == ([("u", 0)], False)


def test_other_groups_do_not_expire() -> None:
    made = shard(
        GroupRecord("g", GroupSnapshot("connect", 1, "x", "m", 1, (MEMBER,))),
        OpaqueRecord("o", OpaqueType.SHARE, "Metadata", b"k", deleted=False),
    )
    assert made.expired("g", 9000, RETENTION_MS) == ([], False)
    assert made.expired("o", 9000, RETENTION_MS) == ([], False)


def test_a_group_whose_member_was_given_an_id_stays() -> None:
    made = shard(GroupRecord("g", GroupSnapshot("", 0, None, None, 0)))
    group = made.groups["g"]
    assert isinstance(group, ClassicGroup)
    group.membership.pending_members["m"] = 10
    assert made.expired("g", 9000, RETENTION_MS) == ([], False)


# -- leadership of partitions ----------------------------------------------------------------------------------------


def test_groups_are_not_here_before_their_topic_is(node: SimNode) -> None:
    with pytest.raises(OperationError) as refused:
        node.context.groups.shard_of("g")
    assert refused.value.error_code is ErrorCode.not_coordinator


def test_a_shard_is_refused_while_it_loads_and_served_afterwards(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit()
    hosted = node.context.groups.shard_of("g")
    hosted.is_active = False
    with pytest.raises(OperationError) as refused:
        node.context.groups.shard_of("g")
    assert refused.value.error_code is ErrorCode.coordinator_load_in_progress
    node.restart()
    assert fetch_offset(node) == 5


def test_a_lost_log_dir_takes_its_groups_along() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        find_coordinator(node)
        index = next(
            each.index
            for each in node.context.partitions.of_topic("__consumer_offsets").values()
            if each.log.log_dir == "/d2"
        )
        group_id = next(name for name in map(str, range(1000)) if partition_for(name, 50) == index)
        assert node.context.groups.shard_of(group_id).is_active
        node.fail_dir("/d2")
        with pytest.raises(OperationError) as refused:
            node.context.groups.shard_of(group_id)
        assert refused.value.error_code is ErrorCode.not_coordinator
