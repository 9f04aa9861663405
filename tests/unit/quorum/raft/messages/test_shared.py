from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.kraft.messages import LeaderHint
from crabka.kraft.voters import ReplicaKey, VoterEndpoint
from crabka.quorum.raft.messages.shared import hint_of, key_of, maybe_key_of, only_partition, told_endpoint


def topic(*, partition: int = 0, **names: Any) -> SimpleNamespace:
    return SimpleNamespace(partitions=(SimpleNamespace(partition_index=partition),), **names)


@pytest.mark.parametrize(
    "good", [{"topic_name": "__cluster_metadata"}, {"name": "__cluster_metadata"}, {"topic_id": UUID(int=1)}]
)
def test_the_metadata_partition_is_found_by_name_or_id(good: dict[str, Any]) -> None:
    assert only_partition([topic(**good)]).partition_index == 0


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [topic(topic_name="t")],
        [topic(topic_id=UUID(int=2))],
        [topic(partition=1, topic_name="__cluster_metadata")],
        [topic(topic_name="__cluster_metadata")] * 2,
        [SimpleNamespace(topic_name="__cluster_metadata", partitions=())],
    ],
)
def test_anything_else_is_refused(topics: list[SimpleNamespace]) -> None:
    with pytest.raises(OperationError):
        only_partition(topics)


def test_null_directory_ids_are_zero() -> None:
    assert key_of(1, None) == ReplicaKey(1, ZERO_UUID)
    assert maybe_key_of(-1, UUID(int=5)) is None
    assert maybe_key_of(1, UUID(int=5)) == ReplicaKey(1, UUID(int=5))


def test_a_hint_holds_only_the_endpoint_of_the_leader() -> None:
    nodes = [SimpleNamespace(node_id=1, host="a", port=1), SimpleNamespace(node_id=2, host="b", port=2)]
    assert hint_of(2, 5, nodes) == LeaderHint(5, 2, (VoterEndpoint("", "b", 2),))
    assert hint_of(-1, 5, nodes) == LeaderHint(5)


def test_an_unknown_leader_has_no_endpoint_to_report() -> None:
    assert told_endpoint(LeaderHint(5), "A") is None
    assert told_endpoint(LeaderHint(5, 2), "A") is None
