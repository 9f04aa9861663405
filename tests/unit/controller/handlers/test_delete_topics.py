"""DeleteTopics over the wire."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of


def delete(node: SimNode, *names: str | uuid.UUID, version: int = 6) -> Any:
    states = [
        row("DeleteTopicState", name=None, topic_id=each)
        if isinstance(each, uuid.UUID)
        else row("DeleteTopicState", name=each, topic_id=None)
        for each in names
    ]
    fields: dict[str, Any] = {"topics": states} if version >= 6 else {"topic_names": list(names)}
    return node.ask(ApiKey.DELETE_TOPICS, version, timeout=1000, **fields).responses


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
def test_every_version_deletes(node: SimNode, version: int) -> None:
    node.create_topic("t")
    (deleted,) = delete(node, "t", version=version)
    assert (deleted.name, deleted.error_code) == ("t", ErrorCode.none)
    assert "t" not in node.context.image.topics.by_name
    assert node.produce("t", batch(b"x")).error_code == ErrorCode.unknown_topic_or_partition


def test_a_topic_is_deleted_by_its_id(node: SimNode) -> None:
    topic_id = node.create_topic("t").topic_id
    (deleted,) = delete(node, topic_id)
    assert (deleted.name, deleted.topic_id, deleted.error_code) == ("t", topic_id, ErrorCode.none)


def test_unknown_topics_have_their_own_codes(node: SimNode) -> None:
    by_name, by_id = delete(node, "nope", uuid.UUID(int=77))
    assert by_name.error_code is ErrorCode.unknown_topic_or_partition
    assert by_id.error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.invalid_request), (2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)],
)
def test_deletion_may_be_disabled(version: int, code: ErrorCode) -> None:
    with SimNode({"delete.topic.enable": "false"}) as node:
        node.create_topic("t")
        assert delete(node, "t", version=version)[0].error_code is code
        assert "t" in node.context.image.topics.by_name


def test_the_files_go_after_the_delay(node: SimNode) -> None:
    node.create_topic("t", file_delete_delay_ms="60000")
    delete(node, "t")
    (doomed,) = [name for name in node.memory.listdir("/d1") if name.startswith("t-0")]
    assert doomed.endswith("-delete")
    node.advance(59_000)
    assert node.memory.exists(f"/d1/{doomed}")
    node.advance(3_000)
    assert not node.memory.exists(f"/d1/{doomed}")
