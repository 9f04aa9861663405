"""CreateTopics over the wire; the decisions themselves are tested with the controller."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import Row, SimNode, row, versions_of


def topic(name: str, partitions: int = 1, factor: int = 1, configs: dict[str, str | None] | None = None) -> Row:
    rows = [row("CreatableTopicConfig", name=key, value=value) for key, value in (configs or {}).items()]
    return row(
        "CreatableTopic", name=name, num_partitions=partitions, replication_factor=factor, assignments=[], configs=rows
    )


def create(node: SimNode, *topics: Row, version: int = 7, validate_only: bool = False) -> Any:
    return node.ask(
        ApiKey.CREATE_TOPICS, version, topics=list(topics), timeout=1000, validate_only=validate_only
    ).topics


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
def test_every_version_creates(node: SimNode, version: int) -> None:
    (created,) = create(node, topic("t", 2), version=version)
    assert created.error_code is ErrorCode.none
    assert len(node.context.image.topics.by_name["t"].partitions) == 2
    assert node.produce("t", b"", partition=1).error_code != ErrorCode.unknown_topic_or_partition


def test_the_answer_reports_id_counts_and_configs(node: SimNode) -> None:
    (created,) = create(node, topic("t", 3, configs={"retention.ms": "5"}))
    assert created.topic_id == node.context.image.topics.by_name["t"].topic_id
    assert (created.num_partitions, created.replication_factor) == (3, 1)
    configs = {config.name: (config.value, config.config_source) for config in created.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)


def test_an_empty_value_is_a_value(node: SimNode) -> None:
    (created,) = create(node, topic("t", configs={"cleanup.policy": ""}))
    assert created.error_code is ErrorCode.none
    assert {config.name: config.value for config in created.configs}["cleanup.policy"] == ""


def test_a_topic_that_exists_is_refused(node: SimNode) -> None:
    node.create_topic("t")
    (refused,) = create(node, topic("t"))
    assert refused.error_code is ErrorCode.topic_already_exists
    assert refused.error_message == "Topic 't' already exists."
    assert refused.configs == ()


def test_validation_alone_creates_nothing(node: SimNode) -> None:
    (created,) = create(node, topic("t"), validate_only=True)
    assert created.error_code is ErrorCode.none
    assert "t" not in node.context.image.topics.by_name


def test_a_bad_topic_does_not_stop_the_others(node: SimNode) -> None:
    bad, good = create(node, topic("a b"), topic("good"))
    assert (bad.error_code, good.error_code) == (ErrorCode.invalid_topic_exception, ErrorCode.none)


def test_defaults_of_the_node_are_used() -> None:
    with SimNode({"num.partitions": "4"}) as node:
        created, other = create(node, topic("t", -1, -1), topic("u", -1, -1))
        assert (created.num_partitions, created.replication_factor) == (4, 1)
        assert created.topic_id != other.topic_id
        (refused,) = create(node, topic("v", configs={"remote.storage.enable": "true"}))
        assert refused.error_code is ErrorCode.invalid_config
    with SimNode({"default.replication.factor": "3"}) as node:
        (refused,) = create(node, topic("t", -1, -1))
        assert refused.error_code is ErrorCode.invalid_replication_factor
