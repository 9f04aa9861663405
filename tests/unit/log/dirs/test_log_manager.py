from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from crabka.errors import ConfigError, StorageError
from crabka.ids import TopicPartition
from crabka.log.dirs.log_dir import LogDirContent
from crabka.log.dirs.log_manager import LogManager
from crabka.runtime import ThreadPool, real_runtime
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import disk_failure
from tests.support.async_tests import run_with
from tests.support.storage.managers import CONFIG, DIRS, TIERED, TOPIC_ID, filled, partition, simulate, tiered_log
from tests.support.storage.small import NOW_MS, append, make_batch, read_headers
from tests.support.storage.tiered import EMPTY_SNAPSHOT


@run_with(lambda test: simulate(MemoryFileSystem(), test))
async def test_logs_are_spread_over_the_dirs(manager: LogManager, /) -> None:
    await filled(manager)
    assert sorted(log.log_dir for log in manager) == ["/d1", "/d1", "/d2", "/d2"]
    assert manager.create(partition(0), TOPIC_ID, CONFIG) is manager.get(partition(0))
    assert manager.create(partition(9), TOPIC_ID, CONFIG, log_dir="/d2").log_dir == "/d2"
    assert len(manager) == 5
    await manager.shutdown()


def test_logs_of_a_start_that_failed_are_closed_without_a_mark() -> None:
    fs = MemoryFileSystem()

    async def first(manager: LogManager) -> None:
        await filled(manager)
        await manager.shutdown()

    async def second(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        logs = list(manager)
        await manager.abandon()
        assert (len(manager), [log.is_open for log in logs]) == (0, [False] * 4)
        manager.unlock()

    simulate(fs, first)
    simulate(fs, second)
    assert not fs.exists("/d1/.kafka_cleanshutdown")


def test_logs_come_back_after_a_clean_stop() -> None:
    fs = MemoryFileSystem()

    async def first(manager: LogManager) -> None:
        await filled(manager)
        await manager.shutdown(broker_epoch=42)

    async def second(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        assert manager.previous_broker_epoch == 42
        for log in manager:
            assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (20, 20, 20)
            assert log.topic_id == TOPIC_ID
            assert len(read_headers(log)) == 10
        assert len(manager) == 4

    simulate(fs, first)
    assert fs.exists("/d1/.kafka_cleanshutdown")
    fs.crash()
    simulate(fs, second)
    assert not fs.exists("/d1/.kafka_cleanshutdown")


def test_flushed_logs_come_back_after_a_crash() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d1")
    fs.makedirs("/d2")
    fs.fsync_dir("/")

    async def first(manager: LogManager) -> None:
        await filled(manager)
        await manager.flush_dirty(NOW_MS)
        await manager.save_checkpoints()

    async def second(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        assert manager.previous_broker_epoch == -1
        assert [log.log_end_offset for log in manager] == [20] * 4

    simulate(fs, first)
    fs.crash()
    simulate(fs, second)


def test_a_stray_log_is_set_aside() -> None:
    fs = MemoryFileSystem()

    async def first(manager: LogManager) -> None:
        await filled(manager, 2)
        await manager.shutdown()

    async def second(manager: LogManager) -> None:
        await manager.load()
        manager.mark_stray(partition(1))
        assert [log.partition for log in manager] == [0]
        await manager.shutdown()

    simulate(fs, first)
    simulate(fs, second)
    names = fs.listdir("/d1") + fs.listdir("/d2")
    assert any(name.startswith("orders-1.") and name.endswith("-stray") for name in names)


def test_a_failed_dir_takes_only_its_own_logs() -> None:
    inner = MemoryFileSystem()
    fs = FaultyFileSystem(inner)

    async def scenario(manager: LogManager) -> None:
        await filled(manager)
        lost: list[tuple[str, list[TopicPartition]]] = []
        manager.subscribe_failures(lambda path, logs: lost.append((path, logs)))
        victim = next(log for log in manager if log.log_dir == "/d1")
        fs.add(disk_failure("/d1/*"))
        with pytest.raises(StorageError) as caught:
            append(victim, make_batch())
        manager.on_dir_failure(caught.value.log_dir, caught.value)
        manager.on_dir_failure(caught.value.log_dir, caught.value)
        assert (manager.online_dirs, manager.offline_dirs) == (["/d2"], ["/d1"])
        assert [path for path, _ in lost] == ["/d1"]
        assert len(lost[0][1]) == 2
        assert manager.offline_reason("/d1") is not None
        assert manager.create(partition(8), TOPIC_ID, CONFIG).log_dir == "/d2"
        await manager.shutdown()

    simulate(fs, scenario)
    assert inner.exists("/d2/.kafka_cleanshutdown")
    assert not inner.exists("/d1/.kafka_cleanshutdown")


@run_with(lambda test: simulate(MemoryFileSystem(), test))
async def test_without_any_dir_nothing_can_be_created(manager: LogManager, /) -> None:
    await manager.load()
    for path in DIRS:
        manager.on_dir_failure(path)
    with pytest.raises(StorageError, match="no log dir is online"):
        manager.create(partition(0), TOPIC_ID, CONFIG)


def test_two_nodes_cannot_share_a_dir() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        await manager.load()
        other = LogManager(manager._runtime, DIRS[1:])
        with pytest.raises(ConfigError, match="locked"):
            await other.load()

    simulate(fs, scenario)


def test_a_partition_in_two_dirs_takes_the_second_dir_offline() -> None:
    fs = MemoryFileSystem()
    for path in DIRS:
        fs.makedirs(f"{path}/orders-0")

    async def scenario(manager: LogManager) -> None:
        await manager.load()
        assert manager.offline_dirs == ["/d2"]
        assert manager.get(partition(0)) is not None

    simulate(fs, scenario)


def test_a_rebuild_from_the_tier_leaves_checkpoints_for_the_next_start() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        log = await tiered_log(manager)
        await manager.rebuild_from_remote(
            log, 500, log_start_offset=40, epochs=[(0, 0), (3, 100)], producer_snapshot=EMPTY_SNAPSHOT
        )

    simulate(fs, scenario)
    fs.crash()

    async def reopened(manager: LogManager) -> None:
        await manager.load(lambda _topic: TIERED)
        log = manager.get(partition(0))
        assert log is not None
        assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (40, 500, 500)
        assert log.leader_epochs.entries == [(0, 40), (3, 100)]

    simulate(fs, reopened)


def test_a_node_that_lost_its_tier_does_not_open_tiered_logs() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        await tiered_log(manager)
        await manager.shutdown()

    simulate(fs, scenario)

    async def without_tier(manager: LogManager) -> None:
        untiered = LogManager(manager._runtime, DIRS, tiering=False)
        with pytest.raises(ConfigError, match="You have to delete all topics with the property"):
            await untiered.load(lambda _topic: TIERED)
        untiered.unlock()
        await manager.load(lambda _topic: TIERED)
        assert manager.get(partition(0)) is not None

    simulate(fs, without_tier)


def test_a_move_that_was_interrupted_is_settled_before_logs_are_opened() -> None:
    fs = MemoryFileSystem()
    settled: list[list[str]] = []

    def settle(contents: Mapping[str, LogDirContent]) -> None:
        settled.append(list(contents))
        if "/d2" in contents:
            raise StorageError("/d2", "failed")
        contents["/d1"].logs.pop(partition(1), None)

    async def first(manager: LogManager) -> None:
        await manager.load()
        for index, path in enumerate(("/d1", "/d1", "/d2")):
            manager.create(partition(index), TOPIC_ID, CONFIG, log_dir=path)
        fs.makedirs(f"/d1/orders-9.{'0' * 32}-future")
        await manager.shutdown()

    async def second(manager: LogManager) -> None:
        await manager.load(settle=settle)
        assert settled == [["/d1", "/d2"], ["/d1"]]
        assert [log.partition for log in manager] == [0]
        assert manager.offline_dirs == ["/d2"]
        assert manager.futures == {partition(9): [f"/d1/orders-9.{'0' * 32}-future"]}

    simulate(fs, first)
    simulate(fs, second)


def test_what_a_move_leaves_is_removed_with_the_deletions() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        await manager.load()
        fs.makedirs("/d1/old")
        manager.schedule_removal("/d1/old", 5)
        removal = manager.removal.delete_due(5)
        assert removal is not None
        await removal
        assert not fs.exists("/d1/old")

    simulate(fs, scenario)


def test_more_logs_than_the_pool_admits_jobs_are_opened_flushed_and_closed(tmp_path: Path) -> None:
    """The bound of the pool slows a node with very many partitions down; it fails neither its stop nor its start."""
    count = 150

    async def session(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        for index in range(count):
            manager.create(partition(index), TOPIC_ID, CONFIG)
        for log in manager:
            append(log, make_batch(1))
            log.roll(NOW_MS)
        await manager.flush_dirty(NOW_MS)
        assert len(manager) == count
        assert not any(log.durability.has_unflushed_segments() for log in manager)
        assert not manager.offline_dirs
        await manager.shutdown(broker_epoch=7)

    for _ in range(2):
        # Far fewer than there are logs, and enough for what `run_all` hands over.
        pool = ThreadPool(4, queue_limit=32)
        runtime = replace(real_runtime(), threads=pool)
        try:
            asyncio.run(session(LogManager(runtime, [str(tmp_path / "d1")])))
        finally:
            pool.close()
    assert (tmp_path / "d1" / ".kafka_cleanshutdown").exists()
