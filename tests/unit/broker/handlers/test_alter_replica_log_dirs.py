"""AlterReplicaLogDirs over the wire."""

from __future__ import annotations

import errno

import pytest

from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.moves.node import TWO_DIRS, alter, other_dir, place_of, settle
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_REPLICA_LOG_DIRS))
def test_every_version_moves(version: int) -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t", 2)
        node.produce("t", batch(b"a"))
        target = other_dir(node)
        assert alter(node, target, "t", 0, version=version) == {0: ErrorCode.none}
        settle(node)
        assert place_of(node) == target
        assert node.values("t") == [b"a"]


def test_the_dir_is_looked_at_first() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        assert alter(node, "/d3", "t", 0) == {0: ErrorCode.log_dir_not_found}
        node.fail_dir("/d2")
        assert alter(node, "/d2", "x" * 249, 0) == {0: ErrorCode.kafka_storage_error}
        assert alter(node, "/d1/", "x" * 249, 0) == {0: ErrorCode.invalid_topic_exception}


def test_a_cordoned_dir_takes_no_replicas() -> None:
    with SimNode({"cordoned.log.dirs": "/d2"}, log_dirs=TWO_DIRS) as node:
        assert alter(node, "/d2", "x" * 249, 0) == {0: ErrorCode.invalid_replica_assignment}
        assert alter(node, "/d1", "t", 0) == {0: ErrorCode.replica_not_available}


@pytest.mark.parametrize("length", [214, 213])
def test_a_name_that_leaves_no_room_for_the_future_log_is_refused(length: int) -> None:
    # Partition, unique id and suffix take 42 of the 255 characters.
    with SimNode(log_dirs=TWO_DIRS) as node:
        expected = ErrorCode.invalid_topic_exception if length == 214 else ErrorCode.replica_not_available
        assert alter(node, "/d2", "x" * length, 0) == {0: expected}


@pytest.mark.parametrize("path", TWO_DIRS)
def test_a_choice_for_a_replica_to_come_is_remembered(path: str) -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        assert alter(node, path, "t", 0, 1) == dict.fromkeys((0, 1), ErrorCode.replica_not_available)
        assert node.context.choices.get(TopicPartition("t", 0)) == path
        node.create_topic("t", 2)
        assert [place_of(node, "t", index) for index in (0, 1)] == [path, path]
        assert len(node.context.choices) == 0


def test_a_replica_on_a_failed_disk_does_not_move() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")
        # The metadata are in the other one.
        alter(node, "/d2", "t", 0)
        settle(node)
        node.fail_dir("/d2")
        assert alter(node, "/d1", "t", 0) == {0: ErrorCode.kafka_storage_error}


def test_the_last_dir_counts_for_a_partition_that_is_named_twice() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")
        before, target = place_of(node), other_dir(node)
        topics = [row("AlterReplicaLogDirTopic", name="t", partitions=[0])]
        dirs = [row("AlterReplicaLogDir", path=path, topics=topics) for path in (target, before)]
        answer = node.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs)
        assert [len(each.partitions) for each in answer.results] == [1]
        settle(node)
        assert place_of(node) == before


def test_a_dir_that_fails_at_once_is_offline() -> None:
    with SimNode(log_dirs=TWO_DIRS, fs=(disk := FaultyFileSystem(MemoryFileSystem()))) as node:
        alter(node, "/d1", "t", 0)
        node.create_topic("t")
        disk.add(FaultRule(operation="makedirs", path="/d2/*", error=errno.EIO))
        assert alter(node, "/d2", "t", 0) == {0: ErrorCode.kafka_storage_error}
        assert node.context.logs.offline_dirs == ["/d2"]
