"""Metadata over the wire."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.broker.handlers import metadata
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import CLUSTER_ID, NODE_HOST, SimNode, row, versions_of


def ask(node: SimNode, *names: str | uuid.UUID, version: int = 12, create: bool = False, **options: Any) -> Any:
    topics = [
        row("MetadataRequestTopic", name=None, topic_id=each)
        if isinstance(each, uuid.UUID)
        else row("MetadataRequestTopic", name=each, topic_id=None)
        for each in names
    ]
    fields = {
        "allow_auto_topic_creation": create,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
        **options,
    }
    return node.ask(ApiKey.METADATA, version, **{"topics": topics, **fields})


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_every_version_describes_a_topic(node: SimNode, version: int) -> None:
    topic_id = node.create_topic("t", 2).topic_id
    answer = ask(node, "t", version=version)
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, NODE_HOST, 9092)
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("t", ErrorCode.none)
    assert [(each.partition_index, each.leader_id) for each in topic.partitions] == [(0, 1), (1, 1)]
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == CLUSTER_ID
    if version >= 7:
        assert topic.partitions[0].leader_epoch == 0
    if version >= 10:
        assert topic.topic_id == topic_id


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_everything_can_be_asked_for(node: SimNode, version: int) -> None:
    node.create_topic("a")
    node.create_topic("b")
    answer = ask(node, version=version, topics=None if version else [])
    assert sorted(topic.name for topic in answer.topics) == ["a", "b"]


def test_an_empty_list_asks_for_no_topic(node: SimNode) -> None:
    node.create_topic("a")
    assert ask(node, version=1).topics == ()


def test_missing_topics_are_created_if_the_client_wants(node: SimNode) -> None:
    assert ask(node, "new").topics[0].error_code is ErrorCode.unknown_topic_or_partition
    assert ask(node, "new", create=True).topics[0].error_code is ErrorCode.none
    assert len(node.context.image.topics.by_name["new"].partitions) == 1


def test_missing_topics_are_not_created_where_the_node_forbids_it() -> None:
    with SimNode({"auto.create.topics.enable": "false"}) as node:
        assert ask(node, "new", create=True).topics[0].error_code is ErrorCode.unknown_topic_or_partition


def test_an_illegal_name_is_reported(node: SimNode) -> None:
    assert ask(node, "a b", create=True).topics[0].error_code is ErrorCode.invalid_topic_exception


def test_why_a_topic_cannot_be_created_is_reported() -> None:
    with SimNode({"default.replication.factor": "3"}) as node:
        assert ask(node, "new", create=True).topics[0].error_code is ErrorCode.invalid_replication_factor


def test_topics_are_found_by_id(node: SimNode) -> None:
    topic_id = node.create_topic("t").topic_id
    found, unknown = ask(node, topic_id, uuid.UUID(int=9)).topics
    assert (found.name, found.error_code) == ("t", ErrorCode.none)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (
        None,
        uuid.UUID(int=9),
        ErrorCode.unknown_topic_id,
    )


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(node: SimNode, version: int) -> None:
    topic_id = node.create_topic("t").topic_id
    rows = [row("MetadataRequestTopic", name=None, topic_id=topic_id)]
    answer = ask(node, version=version, topics=rows)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.invalid_request]


def test_allowed_operations_are_reported_only_on_request(node: SimNode) -> None:
    node.create_topic("t")
    silent = ask(node, "t", version=10)
    assert silent.cluster_authorized_operations == silent.topics[0].topic_authorized_operations == -(2**31)
    reported = ask(
        node,
        "t",
        version=10,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    # The bits that Kafka sets without an authorizer.
    assert (reported.cluster_authorized_operations, reported.topics[0].topic_authorized_operations) == (0x1FA0, 0x0DF8)


def test_internal_topics_are_marked(node: SimNode) -> None:
    node.create_topic("__consumer_offsets")
    assert [topic.is_internal for topic in ask(node, "__consumer_offsets").topics] == [True]


def test_an_answer_with_many_partitions_is_made_in_a_thread(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create_topic("t", 5)
    node.create_topic("u", 3)
    whole = ask(node, topics=None)
    monkeypatch.setattr(metadata, "PARTITIONS_ON_LOOP", 4)
    jobs: list[object] = []
    submit = node.context.request_threads.submit

    def counted(job: Any) -> Any:
        jobs.append(job)
        return submit(job)

    monkeypatch.setattr(node.context.request_threads, "submit", counted)
    assert ask(node, topics=None) == whole
    assert len(jobs) == 1
    assert [len(topic.partitions) for topic in ask(node, "u").topics] == [3]
    assert len(jobs) == 1
