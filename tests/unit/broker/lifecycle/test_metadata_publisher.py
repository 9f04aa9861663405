"""The node does what the metadata says: logs appear, change, move away and go."""

from __future__ import annotations

import asyncio
import errno
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crabka.broker.controller_link.directory_reports import DirectoryReports
from crabka.broker.lifecycle.lifecycle import BrokerLifecycle
from crabka.broker.lifecycle.metadata_publisher import PARTITIONS_PER_TURN, MetadataPublisher
from crabka.broker.lifecycle.service import RETRY_INTERVAL_MS
from crabka.broker.partition.partition import Partition
from crabka.config.topic import TopicConfig
from crabka.ids import DIRECTORY_UNASSIGNED, TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.formatting import format_storage
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import disk_failure
from tests.support.async_tests import run_with
from tests.support.nodes.follower import TOPIC, FollowerWorld, follow
from tests.support.nodes.sim_node import SimNode, batch, row
from tests.support.nodes.tiered import manager_of, tiered_node
from tests.support.quorum.images import partition_of, topic_id_of, with_partition, with_partitions
from tests.support.storage.small import append, make_batch

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


def test_partitions_are_spread_over_the_dirs_and_reported_to_the_metadata() -> None:
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


@pytest.mark.parametrize("reported", [True, False])
def test_a_dir_that_fails_before_it_was_reported_loses_no_data(reported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def say_nothing(*_args: object) -> None:
        return None

    with two_dirs() as node:
        with monkeypatch.context() as meanwhile:
            if not reported:
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


def test_a_new_partition_goes_elsewhere_when_its_disk_fails_at_its_creation() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    with SimNode(log_dirs=("/d1", "/d2", "/d3"), fs=fs) as node:
        fs.add(disk_failure("/d2*"))
        fs.add(disk_failure("/d3/*"))
        node.create_topic("t", 3)
        assert set(placement(node).values()) == {"/d1"}
        assert set(describe(node).values()) == {HEALTHY}
        assert sorted(node.context.logs.offline_dirs) == ["/d2", "/d3"]
        fs.rules.clear()


def test_replicas_of_a_replaced_disk_begin_anew() -> None:
    with two_dirs() as node:
        node.create_topic("t", 2)
        node.advance(10)
        lost = next(index for index, path in placement(node).items() if path == "/d2")
        node.produce("t", batch(b"kept"), partition=1 - lost)
        node.produce("t", batch(b"gone"), partition=lost)
        node.stop()
        node.memory.rmtree("/d2")
        format_storage(node.runtime, node.config, None, ignore_formatted=True)
        node.start()
        assert placement(node)[lost] in DIRS
        assert describe(node)[1 - lost] == HEALTHY
        # With no other replica in sync it leads when its broker comes back and the metadata knows its new dir.
        node.advance(1000)
        node.restart()
        assert describe(node) == {0: HEALTHY, 1: HEALTHY}
        assert node.values("t", lost) == []
        assert node.values("t", 1 - lost) == [b"kept"]


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


def moved(world: FollowerWorld, replicas: tuple[int, ...], index: int = 0) -> None:
    """Let the replicas of a partition be others."""
    partition = partition_of(world.image, TOPIC, index)
    directories = (DIRECTORY_UNASSIGNED,) * len(replicas)
    changed = replace(
        partition,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        directories=directories,
    )
    world.learn(with_partition(world.image, TOPIC, index, changed))


def names(world: FollowerWorld) -> list[str]:
    return [name for name in world.fs.listdir("/d1") if name.startswith(f"{TOPIC}-")]


@run_with(follow)
async def test_a_replica_that_moved_away_is_deleted_here(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    append(leader.lead(), make_batch(2), leader_epoch=5)
    leader.lead(1)
    world.place({}, {})
    await world.settle()
    partition = world.partition()
    moved(world, (1, 3))
    assert world.partitions.get(TOPIC, 0) is None
    assert world.logs.get(TopicPartition(TOPIC, 0)) is None
    assert world.fetchers.followed_count == 1
    await world.settle()
    assert sorted(name.endswith("-delete") for name in names(world)) == [False, True]
    assert not partition.is_leader
    # It may come back, and then it begins with nothing.
    moved(world, (1, 3, 2))
    assert world.partition().log.log_end_offset == 0
    leader.leader_epoch = 7
    await world.settle()
    assert world.partition().log.log_end_offset == 2


@run_with(follow)
async def test_a_replica_on_a_failed_disk_that_moved_away_is_forgotten(world: FollowerWorld, /) -> None:
    world.place({"leader": -1}, {"leader": -1})
    world.logs.on_dir_failure("/d1", OSError("gone"))
    moved(world, (1, 3))
    assert not world.partitions.is_offline(topic_id_of(TOPIC), 0)
    assert world.partitions.is_offline(topic_id_of(TOPIC), 1)


@run_with(follow)
async def test_only_partitions_that_changed_are_looked_at(
    world: FollowerWorld, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.place(*[{"leader": -1}] * 20)
    world.place(*[{"leader": -1}] * 20, topic="u")
    reported: list[tuple[str, int]] = []
    become = Partition.become

    def counted(self: Partition, *args: Any, **options: Any) -> None:
        reported.append((self.topic, self.index))
        become(self, *args, **options)

    monkeypatch.setattr(Partition, "become", counted)
    world.learn_leader(2, 6, 7)
    assert reported == [(TOPIC, 7)]
    assert world.partition(7).is_leader


@run_with(follow)
async def test_a_partition_is_led_or_followed_or_neither(world: FollowerWorld, /) -> None:
    world.place({})
    assert (world.partition().is_leader, world.fetchers.followed_count) == (False, 1)
    world.learn_leader(2, 6)
    assert (world.partition().is_leader, world.fetchers.followed_count) == (True, 0)
    world.learn_leader(-1, 7)
    assert (world.partition().is_leader, world.fetchers.followed_count) == (False, 0)
    world.learn_leader(3, 8)
    assert (world.partition().leader_id, world.fetchers.followed_count) == (3, 1)


@run_with(follow)
async def test_a_deleted_topic_is_followed_no_longer(world: FollowerWorld, /) -> None:
    before = world.image
    world.place({}, {})
    world.learn(before)
    assert (world.fetchers.followed_count, len(world.partitions), len(world.logs)) == (0, 0, 0)


@run_with(follow)
async def test_new_partitions_of_a_topic_are_hosted_where_they_are_placed(world: FollowerWorld, /) -> None:
    world.place({})
    known = partition_of(world.image, TOPIC)
    elsewhere = replace(known, replicas=(1, 3), isr=(1, 3))
    world.learn(with_partition(world.image, TOPIC, 1, elsewhere))
    world.learn(with_partition(world.image, TOPIC, 2, replace(known)))
    assert sorted(partition.index for partition in world.partitions) == [0, 2]


@run_with(follow)
async def test_at_start_logs_of_other_nodes_and_older_topics_are_set_aside(world: FollowerWorld, /) -> None:
    config = TopicConfig()
    world.logs.create(TopicPartition("stranger", 0), uuid.UUID(int=5), config)
    world.logs.create(TopicPartition(TOPIC, 0), uuid.UUID(int=6), config)
    await world.stop()
    world.image = with_partitions(world.image, TOPIC, {"replicas": (2,), "directories": (DIRECTORY_UNASSIGNED,)})
    await world.start()
    assert [log.topic_id for log in world.logs] == [topic_id_of(TOPIC)]
    assert sum(name.endswith("-stray") for name in world.fs.listdir("/d1")) == 2
    assert world.partition().is_leader


@run_with(follow)
async def test_after_a_restart_a_follower_goes_on_with_the_high_watermark_that_it_knew(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    log = leader.lead()
    for _ in range(3):
        append(log, make_batch(2), leader_epoch=5)
    leader.high_watermark = 4
    world.place({})
    await world.settle()
    await world.stop()
    leader.broker.cut_connections()
    leader.broker.close()
    await world.start()
    own = world.partition().log
    assert (own.log_end_offset, own.high_watermark) == (6, 4)


def test_tiering_is_notified_of_every_hosted_partition() -> None:
    with tiered_node() as node:
        noticed: list[tuple[str, int, bool]] = []
        manager: Any = manager_of(node)

        def hosts(partition: Partition) -> None:
            if partition.topic == "t":
                noticed.append(("hosts", partition.index, partition.is_leader))

        manager.on_leadership = hosts
        manager.on_stop = lambda partition, is_deleted: noticed.append(("drops", partition.index, is_deleted))
        node.create_topic("t", 2)
        assert noticed == [("hosts", 0, True), ("hosts", 1, True)]
        noticed.clear()
        node.set_configs(2, "t", retention_ms="1000")
        assert noticed == [("hosts", 0, True), ("hosts", 1, True)]
        noticed.clear()
        delete(node, "t")
        assert noticed == [("drops", 0, True), ("drops", 1, True)]


def test_a_partition_that_had_no_descriptor_is_opened_when_there_are_some() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    with SimNode(fs=fs) as node:
        rule = fs.add(FaultRule(operation="open", path="/d1/t-[02]/*", error=errno.EMFILE))
        node.create_topic("t", 4)
        assert [node.produce("t", batch(b"a"), partition=index).error_code for index in range(4)] == [
            ErrorCode.kafka_storage_error,
            ErrorCode.none,
            ErrorCode.kafka_storage_error,
            ErrorCode.none,
        ]
        node.advance(2 * RETRY_INTERVAL_MS)
        assert node.produce("t", batch(b"a"), partition=0).error_code == ErrorCode.kafka_storage_error, "still none"
        fs.rules.remove(rule)
        node.advance(2 * RETRY_INTERVAL_MS)
        assert [node.produce("t", batch(b"b"), partition=index).error_code for index in range(4)] == [
            ErrorCode.none
        ] * 4
        assert node.context.logs.offline_dirs == []


def test_a_partition_without_a_log_is_forgotten_with_its_topic() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    with SimNode(fs=fs) as node:
        rule = fs.add(FaultRule(operation="open", path="/d1/t-0/*", error=errno.EMFILE))
        node.create_topic("t")
        delete(node, "t")
        fs.rules.remove(rule)
        node.advance(2 * RETRY_INTERVAL_MS)
        assert node.context.partitions.get("t", 0) is None
        node.create_topic("t")
        assert node.produce("t", batch(b"a")).error_code == ErrorCode.none


def test_a_topic_of_very_many_partitions_is_hosted_in_turns_of_the_loop(
    node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, hosted = 3 * PARTITIONS_PER_TURN, 0
    in_turn = [0]  # how many were hosted in each turn of the loop
    host = MetadataPublisher._host

    def next_turn() -> None:
        if hosted < count:
            in_turn.append(0)
            node.loop.call_soon(next_turn)

    def note(self: MetadataPublisher, *args: Any, **options: Any) -> None:
        nonlocal hosted
        if not hosted:
            node.loop.call_soon(next_turn)
        hosted += 1
        in_turn[-1] += 1
        host(self, *args, **options)

    monkeypatch.setattr(MetadataPublisher, "_host", note)
    node.create_topic("t", count)
    assert hosted == count, "each once"
    assert max(in_turn) == PARTITIONS_PER_TURN
    assert all(partition.is_leader for partition in node.context.partitions.of_topic("t").values())


@pytest.mark.parametrize("is_deleted", [True, False])
def test_new_topics_wait_for_the_change_itself_if_others_go_with_it(
    monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    """A topic that goes may have the name of a new one, whose partitions would be taken for its own."""

    async def create_all(_wanted: object) -> None:
        return None

    hosted: list[int] = []
    monkeypatch.setattr(MetadataPublisher, "_host", lambda *args, **_options: hosted.append(args[3]))
    publisher = MetadataPublisher(
        1,
        cast("Any", SimpleNamespace(create_all=create_all)),
        cast("Any", None),
        topic_config=lambda _image, _topic: TopicConfig(),
    )
    topic = SimpleNamespace(partitions={0: SimpleNamespace(replicas=[1], leader_epoch=0)})
    new, old = uuid.UUID(int=1), uuid.UUID(int=2)
    delta = SimpleNamespace(topics_created={new}, topics_deleted={old} if is_deleted else set())
    image = SimpleNamespace(topics=SimpleNamespace(by_id={new: topic}))
    asyncio.run(publisher._create_and_host(cast("Any", delta), cast("Any", image), []))
    assert hosted == ([] if is_deleted else [0])
