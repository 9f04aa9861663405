"""The node does what the metadata says: logs appear, change, move away and go."""

from __future__ import annotations

import pytest

from crabka.broker.directory_reports import DirectoryReports
from crabka.broker.lifecycle import BrokerLifecycle
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode, batch, row

DIRS = ("/d1", "/d2")


def delete(node: SimNode, topic: str) -> None:
    node.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout=1000)


def placement(node: SimNode) -> dict[int, str]:
    return {partition.index: partition.log.log_dir for partition in node.context.partitions}


def places(node: SimNode) -> dict[tuple[str, int], str]:
    return {(partition.topic, partition.index): partition.log.log_dir for partition in node.context.partitions}


def min_index(before: dict[tuple[str, int], str], log_dir: str) -> int:
    return min(index for (topic, index), path in before.items() if (topic, path) == ("t", log_dir))


def test_a_topic_of_the_same_name_starts_empty(node: SimNode) -> None:
    first = node.create_topic("t").topic_id
    node.produce("t", batch(b"old"))
    delete(node, "t")
    second = node.create_topic("t").topic_id
    assert first != second
    assert node.values("t") == []
    assert node.produce("t", batch(b"new"), version=13, topic_id=second)[:2] == (ErrorCode.none, 0)
    assert node.produce("t", batch(b"new"), version=13, topic_id=first).error_code == ErrorCode.unknown_topic_id
    node.advance(61_000)  # the files of the old topic go, those of the new one stay
    node.restart()
    assert node.values("t") == [b"new"]


def test_partitions_are_spread_over_the_dirs_and_told_to_the_metadata() -> None:
    with SimNode(log_dirs=DIRS) as node:
        node.create_topic("t", 4)
        node.advance(10)
        where = placement(node)
        assert sorted(where.values()) == ["/d1", "/d1", "/d2", "/d2"]
        ids = {path: node.context.logs.directory_id(path) for path in DIRS}
        partitions = node.context.image.topics.by_name["t"].partitions
        assert {index: partitions[index].directory_of(1) for index in where} == {
            index: ids[path] for index, path in where.items()
        }


def test_a_log_that_the_metadata_does_not_place_here_is_set_aside(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    node.stop()
    node.memory.makedirs("/d1/stranger-0")
    node.start()
    names = [name for name in node.memory.listdir("/d1") if "stranger" in name]
    assert len(names) == 1
    assert names[0].endswith("-stray")
    assert node.values("t") == [b"a"]


def test_a_log_of_an_older_topic_of_that_name_is_set_aside(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"old"))
    node.stop()
    copy = node.memory.clone()
    node.start()
    delete(node, "t")
    node.create_topic("t")
    node.stop()
    for name in copy.listdir("/d1/t-0"):
        content = copy.open(f"/d1/t-0/{name}").pread(1 << 20, 0)
        file = node.memory.open(f"/d1/t-0/{name}", create=True)
        file.truncate(0)
        file.pwritev([content], 0)
        file.close()
    node.start()
    assert node.values("t") == []
    assert [name for name in node.memory.listdir("/d1") if name.endswith("-stray")]


def describe(node: SimNode) -> dict[int, tuple[ErrorCode, int, tuple[int, ...]]]:
    topics = [row("MetadataRequestTopic", name="t", topic_id=None)]
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    answer = node.ask(ApiKey.METADATA, 12, topics=topics, **fields)
    return {
        each.partition_index: (each.error_code, each.leader_id, each.offline_replicas)
        for each in answer.topics[0].partitions
    }


HEALTHY = (ErrorCode.none, 1, ())
LOST = (ErrorCode.leader_not_available, -1, (1,))


def two_dirs() -> SimNode:
    return SimNode(log_dirs=DIRS)


def test_after_a_dir_failed_its_partitions_are_offline_and_the_others_work() -> None:
    with two_dirs() as node:
        node.create_topic("t", 2)
        node.advance(10)
        lost = next(index for index, path in placement(node).items() if path == "/d2")
        node.produce("t", batch(b"kept"), partition=1 - lost)
        node.fail_dir("/d2")
        assert describe(node) == {lost: LOST, 1 - lost: HEALTHY}
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.kafka_storage_error
        assert node.fetch("t", partition=lost).error_code is ErrorCode.kafka_storage_error
        assert node.values("t", 1 - lost) == [b"kept"]
        registered = node.context.image.cluster.brokers[1].directories
        assert registered == (node.context.logs.directory_id("/d1"),)
        # A later change of the topic must not bring an empty log in place of the lost one.
        grown = row("CreatePartitionsTopic", name="t", count=3, assignments=None)
        node.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[grown], timeout=1000, validate_only=False)
        assert describe(node) == {lost: LOST, 1 - lost: HEALTHY, 2: HEALTHY}
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.kafka_storage_error


@pytest.mark.parametrize("told", [True, False])
def test_a_dir_that_fails_before_it_was_told_loses_no_data(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def say_nothing(*_args: object) -> None:
        return None

    with two_dirs() as node:
        with monkeypatch.context() as meanwhile:
            if not told:
                meanwhile.setattr(DirectoryReports, "report", say_nothing)
            node.create_topic("t", 2)
            node.advance(10)
        lost = next(index for index, path in placement(node).items() if path == "/d2")
        node.produce("t", batch(b"kept"), partition=lost)
        node.fail_dir("/d2")
        grown = row("CreatePartitionsTopic", name="t", count=3, assignments=None)
        node.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[grown], timeout=1000, validate_only=False)
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.kafka_storage_error
        assert describe(node)[lost] == LOST
        node.restart()
        assert node.values("t", lost) == [b"kept"]


def test_no_empty_log_takes_the_place_of_a_lost_one_before_the_metadata_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def say_nothing(*_args: object) -> None:
        return None

    with two_dirs() as node:
        monkeypatch.setattr(DirectoryReports, "report", say_nothing)
        monkeypatch.setattr(BrokerLifecycle, "lose_directories", lambda *_args: None)
        node.create_topic("t", 2)
        lost = next(index for index, path in placement(node).items() if path == "/d2")
        node.fail_dir("/d2")
        grown = row("CreatePartitionsTopic", name="t", count=3, assignments=None)
        node.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[grown], timeout=1000, validate_only=False)
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.kafka_storage_error
        assert node.produce("t", batch(b"a"), partition=2).error_code == ErrorCode.none


def test_new_partitions_go_to_the_dirs_that_work() -> None:
    with two_dirs() as node:
        node.fail_dir("/d2")
        node.create_topic("t", 3)
        assert set(placement(node).values()) == {"/d1"}


def test_a_node_starts_without_a_dir_and_takes_it_back_later() -> None:
    with two_dirs() as node:
        node.create_topic("t", 2)
        node.advance(10)
        lost = next(index for index, path in placement(node).items() if path == "/d2")
        node.produce("t", batch(b"away"), partition=lost)
        node.stop()
        node.memory.rename("/d2", "/unplugged")
        blocker = node.memory.open("/d2", create=True)  # no directory can be made there
        blocker.close()
        node.start()
        assert node.context.logs.offline_dirs == ["/d2"]
        assert describe(node) == {lost: LOST, 1 - lost: HEALTHY}
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.kafka_storage_error
        node.stop()
        node.memory.unlink("/d2")
        node.memory.rename("/unplugged", "/d2")
        node.start()
        assert describe(node) == {0: HEALTHY, 1: HEALTHY}
        assert node.values("t", lost) == [b"away"]


def test_a_dir_that_fails_and_comes_back_with_a_restart() -> None:
    with two_dirs() as node:
        node.create_topic("t", 2)
        node.advance(10)
        lost = next(index for index, path in placement(node).items() if path == "/d2")
        node.fail_dir("/d2")
        node.restart()
        assert describe(node) == {0: HEALTHY, 1: HEALTHY}
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.none


def test_a_deleted_topic_is_forgotten_in_a_failed_dir_too() -> None:
    with two_dirs() as node:
        node.create_topic("t", 2)
        node.advance(10)
        node.fail_dir("/d2")
        delete(node, "t")
        assert node.produce("t", batch(b"a"), partition=0).error_code == ErrorCode.unknown_topic_or_partition
        node.create_topic("t", 2)
        for index in (0, 1):
            assert node.produce("t", batch(b"a"), partition=index).error_code == ErrorCode.none


def test_a_log_that_was_never_made_is_made_in_its_dir() -> None:
    with two_dirs() as node:
        node.create_topic("t", 4)
        node.create_topic("u", 4)
        node.advance(10)
        before = places(node)
        node.stop()
        # Left to itself, the node would put new logs into the emptier dir.
        kept = {name for name, path in before.items() if path == "/d1"} - {("t", min_index(before, "/d1"))}
        for (topic, index), path in before.items():
            if (topic, index) not in kept:
                node.memory.rmtree(f"{path}/{topic}-{index}")
        node.start()
        assert places(node) == before


@pytest.mark.parametrize("count", [1, 3])
def test_settings_of_a_topic_reach_all_its_logs(node: SimNode, count: int) -> None:
    node.create_topic("t", count)
    node.create_topic("other")
    node.set_configs(2, "t", segment_ms="77")
    configs = [partition.log.config.segment_ms for partition in node.context.partitions if partition.topic == "t"]
    assert configs == [77] * count
    assert node.context.partitions.by_name("other", 0).log.config.segment_ms != 77
