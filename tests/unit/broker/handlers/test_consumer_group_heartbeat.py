"""ConsumerGroupHeartbeat over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import beat
from tests.support.coordinators.members import NodeMember, find_coordinator
from tests.support.nodes.sim_node import SimNode, row, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_a_member_joins_reports_and_leaves(node: SimNode, version: int) -> None:
    node.create_topic("t", 2)
    find_coordinator(node)
    joined = beat(node, "m", 0, version=version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (ErrorCode.none, "m", 2)
    (topic,) = joined.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (node.context.image.topics.by_name["t"].topic_id, (0, 1))
    reported = beat(node, "m", 2, version=version, topic_partitions=[row("TopicPartitions", **_fields(topic))])
    assert (reported.error_code, reported.assignment) == (ErrorCode.none, None)
    assert beat(node, "m", -1, version=version).member_epoch == -1


def _fields(topic: Any) -> dict[str, Any]:
    return {"topic_id": topic.topic_id, "partitions": topic.partitions}


def test_the_first_version_gives_ids_out(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    assert beat(node, "", 0, version=0).member_id
    assert beat(node, "", 0).error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("epoch", "fields", "expected"),
    [
        (0, {"group_id": ""}, ErrorCode.invalid_request),
        (0, {"instance_id": ""}, ErrorCode.invalid_request),
        (0, {"rack_id": " "}, ErrorCode.invalid_request),
        (0, {"rebalance_timeout": -1}, ErrorCode.invalid_request),
        (0, {"topic_partitions": None}, ErrorCode.invalid_request),
        (0, {"subscribed_topic_names": None}, ErrorCode.invalid_request),
        (-2, {}, ErrorCode.invalid_request),
        (-3, {}, ErrorCode.invalid_request),
        (0, {"server_assignor": "simple"}, ErrorCode.unsupported_assignor),
        (1, {}, ErrorCode.group_id_not_found),
    ],
)
def test_what_is_wrong_is_reported(node: SimNode, epoch: int, fields: dict[str, Any], expected: ErrorCode) -> None:
    find_coordinator(node)
    answer = beat(node, "m", epoch, **fields)
    assert answer.error_code is expected
    assert answer.error_message


def test_without_the_protocol_joins_are_refused() -> None:
    with SimNode(settings={"group.coordinator.rebalance.protocols": "classic"}) as node:
        find_coordinator(node)
        assert beat(node, "m", 0).error_code is ErrorCode.unsupported_version


def test_commits_need_the_members_epoch(node: SimNode) -> None:
    node.create_topic("t", 2)
    find_coordinator(node)
    epoch = beat(node, "m", 0).member_epoch
    member = NodeMember(node)
    member.member_id = "m"
    for generation, expected in ((epoch, ErrorCode.none), (epoch + 1, ErrorCode.stale_member_epoch)):
        member.generation = generation
        assert member.commit() is expected
