"""CreatePartitions over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of


def grow(node: SimNode, name: str, count: int, *, version: int = 3, **options: Any) -> Any:
    assignments = options.pop("assignments", None)
    wanted = row("CreatePartitionsTopic", name=name, count=count, assignments=assignments)
    fields = {"timeout": 1000, "validate_only": False, **options}
    return node.ask(ApiKey.CREATE_PARTITIONS, version, topics=[wanted], **fields).results[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_PARTITIONS))
def test_every_version_grows(node: SimNode, version: int) -> None:
    node.create_topic("t")
    assert grow(node, "t", 3, version=version).error_code is ErrorCode.none
    assert node.produce("t", batch(b"x"), partition=2).error_code == ErrorCode.none


def test_the_replicas_may_be_chosen(node: SimNode) -> None:
    node.create_topic("t")
    chosen = [row("CreatePartitionsAssignment", broker_ids=[1])]
    assert grow(node, "t", 2, assignments=chosen).error_code is ErrorCode.none
    wrong = [row("CreatePartitionsAssignment", broker_ids=[5])]
    assert grow(node, "t", 3, assignments=wrong).error_code is ErrorCode.invalid_replica_assignment


def test_validation_alone_changes_nothing(node: SimNode) -> None:
    node.create_topic("t")
    assert grow(node, "t", 3, validate_only=True).error_code is ErrorCode.none
    assert len(node.context.image.topics.by_name["t"].partitions) == 1


def test_a_topic_cannot_shrink(node: SimNode) -> None:
    node.create_topic("t", 2)
    refused = grow(node, "t", 1)
    assert refused.error_code is ErrorCode.invalid_partitions
    assert refused.error_message == "The topic t currently has 2 partition(s); 1 would not be an increase."
    assert grow(node, "nope", 1).error_code is ErrorCode.unknown_topic_or_partition
