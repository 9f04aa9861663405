"""DescribeLogDirs over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode, batch, row, versions_of


def ask(node: SimNode, topics: Any = None, version: int = 4) -> Any:
    return node.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics).results


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_LOG_DIRS))
def test_every_version_shows_sizes(node: SimNode, version: int) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    (found,) = ask(node, version=version)
    assert (found.log_dir, found.error_code) == ("/d1", ErrorCode.none)
    assert [(each.partition_index, each.partition_size) for each in found.topics[0].partitions] == [
        (0, len(batch(b"a")))
    ]
    if version >= 4:
        assert found.total_bytes >= found.usable_bytes > 0


def test_only_asked_partitions_are_shown(node: SimNode) -> None:
    node.create_topic("a", 2)
    node.create_topic("b")
    (found,) = ask(node, [row("DescribableLogDirTopic", topic="a", partitions=[1])])
    shown = [(topic.name, each.partition_index) for topic in found.topics for each in topic.partitions]
    assert shown == [("a", 1)]


def test_a_failed_dir_is_shown_as_failed() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.create_topic("t", 2)
        node.fail_dir("/d2")
        found = {each.log_dir: each for each in ask(node)}
        assert found["/d1"].error_code is ErrorCode.none
        assert (found["/d2"].error_code, found["/d2"].topics) == (ErrorCode.kafka_storage_error, ())
