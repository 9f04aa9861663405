"""Shards follow the leadership of their partitions."""

from __future__ import annotations

import pytest

from crabka.broker.groups.shards import java_hash, partition_for
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import NodeMember, fetch_offset, find_coordinator
from tests.support.sim_node import SimNode


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
