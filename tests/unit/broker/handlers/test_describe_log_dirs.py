"""DescribeLogDirs over the wire."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of


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
        assert (found["/d2"].total_bytes, found["/d2"].usable_bytes) == (-1, -1)


def test_dirs_are_shown_in_the_order_of_the_settings() -> None:
    with SimNode(log_dirs=("/d1", "/d2", "/d3")) as node:
        node.fail_dir("/d2")
        assert [each.log_dir for each in ask(node)] == ["/d1", "/d2", "/d3"]


def test_a_disk_that_does_not_report_its_size_is_shown_as_failed() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    with SimNode(log_dirs=("/d1", "/d2"), fs=fs) as node:
        fs.add(FaultRule(operation="disk_usage", path="/d2", error=errno.EIO))
        assert [each.error_code for each in ask(node)] == [ErrorCode.none, ErrorCode.kafka_storage_error]


def test_cordoned_dirs_are_shown_from_version_5_on() -> None:
    with SimNode({"cordoned.log.dirs": "/d2"}, log_dirs=("/d1", "/d2")) as node:
        assert [each.is_cordoned for each in ask(node, version=5)] == [False, True]
        assert not hasattr(ask(node, version=4)[0], "is_cordoned")


def test_a_follower_lags_by_what_is_committed_beyond_its_end(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    log = node.context.partitions.by_name("t", 0).log
    log.state.high_watermark = 7
    (found,) = ask(node)
    assert found.topics[0].partitions[0].offset_lag == 6


def test_a_replica_that_moves_is_in_both_dirs() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.create_topic("t")
        source = node.context.partitions.by_name("t", 0).log.log_dir
        target = "/d2" if source == "/d1" else "/d1"
        for _ in range(50):
            node.produce("t", batch(b"v" * 100_000))
        node.set_configs(4, "1", replica_alter_log_dirs_io_max_bytes_per_second="100000")
        topics = [row("AlterReplicaLogDirTopic", name="t", partitions=[0])]
        moved = node.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[row("AlterReplicaLogDir", path=target, topics=topics)])
        assert moved.results[0].partitions[0].error_code is ErrorCode.none
        node.advance(5_000)
        found = {each.log_dir: each.topics[0].partitions[0] for each in ask(node)}
        assert (found[source].is_future_key, found[target].is_future_key) == (False, True)
        assert 0 < found[target].partition_size < found[source].partition_size
        assert 0 < found[target].offset_lag < 50
        other = [row("DescribableLogDirTopic", topic="other", partitions=[0])]
        assert [each.topics for each in ask(node, other)] == [(), ()]
        node.advance(120_000)
        after = {each.log_dir: each.topics for each in ask(node)}
        assert after[source] == ()
        assert [each.is_future_key for each in after[target][0].partitions] == [False]
