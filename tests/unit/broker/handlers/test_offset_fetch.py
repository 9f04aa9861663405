"""OffsetFetch over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.groups.offsets import CommittedOffset
from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, find_coordinator
from tests.support.nodes.sim_node import Row, SimNode, row, versions_of

ALL = "all"


def ask(node: SimNode, version: int, topics: Any = ALL, group_id: str = "g", *, stable: bool = False) -> Any:
    """Ask and return the row of the group, or the whole answer of old versions."""
    if version < 8:
        pairs = () if topics == ALL else topics
        rows = [row("OffsetFetchRequestTopic", name=name, partition_indexes=indexes) for name, indexes in pairs]
        named = None if topics == ALL else rows
        return node.ask(ApiKey.OFFSET_FETCH, version, group_id=group_id, topics=named, require_stable=stable)
    wanted = None if topics == ALL else [_topic(node, version, name, indexes) for name, indexes in topics]
    group = row("OffsetFetchRequestGroup", group_id=group_id, member_id=None, member_epoch=-1, topics=wanted)
    (answer,) = node.ask(ApiKey.OFFSET_FETCH, version, groups=[group], require_stable=stable).groups
    assert answer.group_id == group_id
    return answer


def _topic(node: SimNode, version: int, name: str, indexes: list[int]) -> Row:
    if version < 10:
        return row("OffsetFetchRequestTopics", name=name, partition_indexes=indexes)
    image = node.context.image.topics.by_name.get(name)
    topic_id = image.topic_id if image is not None else node.runtime.new_uuid()
    return row("OffsetFetchRequestTopics", topic_id=topic_id, partition_indexes=indexes)


@pytest.fixture
def committed(node: SimNode) -> SimNode:
    """A node with one committed offset."""
    node.create_topic("t", 2)
    find_coordinator(node)
    assert NodeMember(node).commit(offset=5) is ErrorCode.none
    return node


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FETCH))
def test_committed_offsets_are_found_and_others_are_minus_one(committed: SimNode, version: int) -> None:
    answer = ask(committed, version, [("t", [0, 1])])
    assert getattr(answer, "error_code", ErrorCode.none) is ErrorCode.none
    first, second = answer.topics[0].partitions
    assert (first.committed_offset, first.metadata, first.error_code) == (5, "m", ErrorCode.none)
    assert getattr(first, "committed_leader_epoch", 2) == 2
    assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", ErrorCode.none)


@pytest.mark.parametrize("version", [each for each in versions_of(ApiKey.OFFSET_FETCH) if each >= 2])
def test_no_topics_stand_for_all(committed: SimNode, version: int) -> None:
    (topic,) = ask(committed, version).topics
    assert [each.committed_offset for each in topic.partitions] == [5]
    assert topic.topic_id if version >= 10 else topic.name == "t"


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FETCH))
def test_a_group_that_is_not_there_has_no_offsets(committed: SimNode, version: int) -> None:
    (topic,) = ask(committed, version, [("t", [0])], "nobody").topics
    assert topic.partitions[0].committed_offset == -1


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FETCH))
def test_without_a_coordinator_the_error_is_reported(node: SimNode, version: int) -> None:
    node.create_topic("t")
    answer = ask(node, version, [("t", [0])])
    if version == 1:
        assert answer.topics[0].partitions[0].error_code is ErrorCode.not_coordinator
    else:
        assert answer.error_code is ErrorCode.not_coordinator


def test_an_unknown_topic_id_is_reported(committed: SimNode) -> None:
    (topic,) = ask(committed, 10, [("nope", [0])]).topics
    assert topic.partitions[0].error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [7, 8, 10])
def test_an_offset_that_a_transaction_may_change_is_not_stable(committed: SimNode, version: int) -> None:
    shard = committed.context.groups.shard_of("g").shard
    shard.offsets.put_pending(3, "g", ("t", 0), CommittedOffset(9, -1, "", 0))
    assert ask(committed, version, [("t", [0])]).topics[0].partitions[0].committed_offset == 5
    (topic,) = ask(committed, version, [("t", [0])], stable=True).topics
    assert topic.partitions[0].error_code is ErrorCode.unstable_offset_commit


def test_share_groups_have_no_offsets(committed: SimNode) -> None:
    group = OpaqueGroup("g", OpaqueType.SHARE)
    group.replay(b"key", "Metadata", deleted=False)
    committed.context.groups.shard_of("g").shard.groups["g"] = group
    assert ask(committed, 9).error_code is ErrorCode.group_id_not_found
