"""Topics that come into being because somebody asked for them."""

from __future__ import annotations

import asyncio

from crabka.broker.auto_create import create_missing_topics, topic_defaults
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode


def test_topics_get_the_defaults_of_the_node() -> None:
    with SimNode({"num.partitions": "3"}) as node:
        assert node.run(create_missing_topics(node.context, ["a", "a", "b"])) == {}
        topics = node.context.image.topics.by_name
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"a": 3, "b": 3}


def test_defaults_follow_dynamic_settings(node: SimNode) -> None:
    assert topic_defaults(node.context).partition_count == 1
    assert node.set_configs(4, "", num_partitions="5") in (0, ErrorCode.invalid_request)


def test_illegal_names_are_left_out(node: SimNode) -> None:
    assert node.run(create_missing_topics(node.context, ["a b", ""])) == {}
    assert not node.context.image.topics.by_name


def test_two_who_ask_at_once_get_one_topic(node: SimNode) -> None:
    async def both() -> list[dict[str, ErrorCode]]:
        return list(await asyncio.gather(*(create_missing_topics(node.context, ["t"]) for _ in range(2))))

    assert node.run(both()) == [{}, {}]
    assert list(node.context.image.topics.by_name) == ["t"]


def test_what_cannot_be_created_is_told(node: SimNode) -> None:
    node.create_topic("a.b")
    assert node.run(create_missing_topics(node.context, ["a_b"])) == {"a_b": ErrorCode.invalid_topic_exception}
