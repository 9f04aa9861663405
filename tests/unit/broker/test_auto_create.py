"""Topics that come into being because somebody asked for them."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.auto_create import create_missing_topics
from crabka.metadata.records import ConfigRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.metadata_logs import SINGLE, segments, stored_records
from tests.support.sim_node import SimNode


def test_topics_get_the_defaults_of_the_node() -> None:
    with SimNode({"num.partitions": "3"}) as node:
        assert node.run(create_missing_topics(node.context, ["a", "a", "b"])) == {}
        topics = node.context.image.topics.by_name
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"a": 3, "b": 3}


def test_illegal_names_are_left_out(node: SimNode) -> None:
    assert node.run(create_missing_topics(node.context, ["a b", ""])) == {}
    assert not node.context.image.topics.by_name


def test_two_who_ask_at_once_get_one_topic(node: SimNode) -> None:
    async def both() -> list[dict[str, ErrorCode]]:
        return list(await asyncio.gather(*(create_missing_topics(node.context, ["t"]) for _ in range(2))))

    assert node.run(both()) == [{}, {}]
    assert list(node.context.image.topics.by_name) == ["t"]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_get_kafkas_counts_and_settings(name: str) -> None:
    messages = [record.message for path in segments(SINGLE) for record in stored_records(path)]
    recorded = {
        message.name: message.value
        for message in messages
        if isinstance(message, ConfigRecord) and message.resource_name == name
    }
    counts = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with SimNode(counts) as node:
        assert node.run(create_missing_topics(node.context, [name])) == {}
        assert len(node.context.image.topics.by_name[name].partitions) == 3
        assert node.context.image.configs.get(2, name) == recorded


def test_what_cannot_be_created_is_told(node: SimNode) -> None:
    node.create_topic("a.b")
    assert node.run(create_missing_topics(node.context, ["a_b"])) == {"a_b": ErrorCode.invalid_topic_exception}
