from __future__ import annotations

import asyncio
import errno

from crabka.log.dirs.log_manager import LogManager
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.async_tests import run_with
from tests.support.storage.managers import CONFIG, TOPIC_ID, partition, simulate
from tests.support.storage.small import append, make_batch, read_headers

LIMIT = 64
COUNT = 60


async def written(manager: LogManager) -> None:
    """Create more logs than may be open and write to all, in turn with the rest of the loop."""
    await manager.load(lambda _topic: CONFIG)
    for index in range(COUNT):
        manager.create(partition(index), TOPIC_ID, CONFIG)
    for log in manager:
        if manager.get(log.topic_partition) is log:
            append(log, make_batch(1))
        await asyncio.sleep(0)
    await manager._keeper.drain()
    manager.unlock()


@run_with(lambda test: simulate(MemoryFileSystem(), test, open_file_limit=LIMIT))
async def test_unsynced_segments_are_synced_and_closed_in_threads(manager: LogManager, /) -> None:
    await written(manager)
    segments = manager.descriptors.active
    assert segments.capacity == LIMIT // 4
    assert len(segments) <= segments.capacity
    for log in manager:
        append(log, make_batch(1))
        assert len(segments) <= segments.ceiling
        assert len(read_headers(log)) == 2
    await manager.shutdown()


def test_what_a_segment_held_when_it_gave_up_its_descriptor_survives_a_power_cut() -> None:
    """These logs were never flushed: a descriptor was closed only after an fsync of that descriptor."""
    fs = MemoryFileSystem()
    resting: list[int] = []

    async def first(manager: LogManager) -> None:
        await written(manager)
        for log in manager:
            fs.fsync_dir(log.path)
        for path in manager.online_dirs:
            fs.fsync_dir(path)
        resting.extend(log.partition for log in manager if not log.state.active.has_descriptor)

    async def second(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        for index in resting:
            log = manager.get(partition(index))
            assert log is not None
            assert log.log_end_offset == 1

    simulate(fs, first, open_file_limit=LIMIT)
    assert len(resting) >= COUNT - LIMIT // 4
    fs.crash()
    simulate(fs, second)


def test_after_a_crash_more_logs_are_opened_than_descriptors_are_left() -> None:
    fs = MemoryFileSystem()
    most = 0

    async def second(manager: LogManager) -> None:
        nonlocal most
        await manager.load(lambda _topic: CONFIG)
        most = len(manager.descriptors.active)
        assert all(len(read_headers(log)) == 1 for log in manager)
        assert len(manager) == COUNT

    simulate(fs, written)
    simulate(fs, second, open_file_limit=LIMIT)
    assert most <= LIMIT // 4 + LIMIT // 16


def test_a_sync_that_fails_takes_the_dir_offline() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(manager: LogManager) -> None:
        fs.add(FaultRule(operation="fsync", path="/d1/*.log", error=errno.EIO))
        await written(manager)
        assert manager.offline_dirs == ["/d1"]

    simulate(fs, scenario, open_file_limit=LIMIT)
