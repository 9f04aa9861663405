"""Shards follow the leadership of their partitions."""

from __future__ import annotations

import pytest

from crabka.broker.coordinators.shards import partition_for
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import NodeMember, fetch_offset, find_coordinator
from tests.support.sim_node import SimNode


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
