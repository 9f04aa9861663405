"""AlterPartitionReassignments over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of
from tests.support.quorum.images import partition_of


def reassign(
    node: SimNode, wanted: dict[str, dict[int, list[int] | None]], *, version: int = 1, pinned: bool = False
) -> Any:
    topics = [
        row(
            "ReassignableTopic",
            name=name,
            partitions=[
                row("ReassignablePartition", partition_index=index, replicas=replicas)
                for index, replicas in partitions.items()
            ],
        )
        for name, partitions in wanted.items()
    ]
    fields: dict[str, Any] = {"topics": topics, "timeout": 1000}
    if version >= 1:
        fields["allow_replication_factor_change"] = not pinned
    return node.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, **fields)


def codes(response: Any) -> dict[str, dict[int, ErrorCode]]:
    return {
        topic.name: {each.partition_index: each.error_code for each in topic.partitions} for topic in response.responses
    }


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS))
def test_every_version_answers_each_partition(node: SimNode, version: int) -> None:
    node.create_topic("t", 2)
    response = reassign(node, {"t": {0: [1], 1: [9], 7: [1]}, "nope": {0: [1]}}, version=version)
    assert response.error_code is ErrorCode.none
    assert codes(response) == {
        "t": {
            0: ErrorCode.none,
            1: ErrorCode.invalid_replica_assignment,
            7: ErrorCode.unknown_topic_or_partition,
        },
        "nope": {0: ErrorCode.unknown_topic_or_partition},
    }
    assert partition_of(node.context.image).replicas == (1,)


def test_there_is_nothing_to_cancel(node: SimNode) -> None:
    node.create_topic("t")
    response = reassign(node, {"t": {0: None}})
    assert codes(response) == {"t": {0: ErrorCode.no_reassignment_in_progress}}
    assert response.responses[0].partitions[0].error_message == "No partition reassignment is in progress."


@pytest.mark.parametrize("pinned", [False, True])
def test_the_answer_repeats_whether_the_replication_factor_may_change(node: SimNode, pinned: bool) -> None:
    node.create_topic("t")
    response = reassign(node, {"t": {0: [1]}}, pinned=pinned)
    assert response.allow_replication_factor_change is not pinned
