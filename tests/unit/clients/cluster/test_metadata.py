"""The cluster view: merging responses, forgetting topics."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from crabka.clients.cluster.metadata import ClusterView
from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode


def response(*topics: Any) -> Any:
    broker = SimpleNamespace(node_id=1, host="h", port=9, rack=None)
    return SimpleNamespace(brokers=[broker], cluster_id="c", controller_id=1, topics=topics)


def topic(name: str, code: ErrorCode = ErrorCode.none, topic_id: uuid.UUID | None = None) -> Any:
    partition = SimpleNamespace(
        partition_index=0, leader_id=1, leader_epoch=4, replica_nodes=[1], isr_nodes=[1], error_code=ErrorCode.none
    )
    return SimpleNamespace(
        name=name, error_code=code, topic_id=topic_id, is_internal=False, partitions=[] if code.value else [partition]
    )


def test_topics_of_a_partial_response_are_added() -> None:
    view = ClusterView().merged(response(topic("a")), all_topics=False).merged(response(topic("b")), all_topics=False)
    assert set(view.topics) == {"a", "b"}
    assert view.topics["a"].partitions[0].leader_epoch == 4
    assert view.brokers[1].port == 9


def test_full_response_replaces_all_topics() -> None:
    view = ClusterView().merged(response(topic("a")), all_topics=False).merged(response(topic("b")), all_topics=True)
    assert set(view.topics) == {"b"}


def test_topic_with_an_error_is_forgotten_and_its_code_kept_until_it_is_back() -> None:
    view = ClusterView().merged(response(topic("a")), all_topics=False)
    view = view.merged(response(topic("a", ErrorCode.unknown_topic_or_partition)), all_topics=False)
    assert view.topic_errors == {"a": ErrorCode.unknown_topic_or_partition}
    assert not view.topics
    assert not view.merged(response(topic("a")), all_topics=False).topic_errors


def test_missing_topic_id_is_zero() -> None:
    assert ClusterView().merged(response(topic("a")), all_topics=False).topics["a"].topic_id == ZERO_UUID


def test_stale_topic_can_be_dropped() -> None:
    view = ClusterView().merged(response(topic("a"), topic("b")), all_topics=True)
    assert set(view.without_topic("a").topics) == {"b"}
    assert set(view.topics) == {"a", "b"}
