from __future__ import annotations

from crabka.config.topic import TopicConfig
from crabka.log.dirs.log_manager import LogManager
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import disk_failure
from tests.support.async_tests import run_with
from tests.support.storage.managers import TOPIC_ID, filled, partition, simulate
from tests.support.storage.small import NOW_MS, append, make_batch


@run_with(lambda test: simulate(MemoryFileSystem(), test))
async def test_only_logs_with_sealed_segments_or_passed_time_are_flushed(manager: LogManager, /) -> None:
    await manager.load()
    quiet = manager.create(partition(0), TOPIC_ID, TopicConfig())
    timed = manager.create(partition(1), TOPIC_ID, TopicConfig(flush_ms=1000))
    for log in (quiet, timed):
        append(log, make_batch())
    now_ms = timed.durability.last_flush_ms
    await manager.flush_dirty(now_ms + 999)
    assert (quiet.recovery_point, timed.recovery_point) == (0, 0)
    await manager.flush_dirty(now_ms + 1000)
    assert (quiet.recovery_point, timed.recovery_point) == (0, 1)


def test_a_dir_that_cannot_be_flushed_goes_offline() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(manager: LogManager) -> None:
        await filled(manager)
        fs.add(disk_failure("/d2/*"))
        await manager.flush_dirty(NOW_MS)
        assert manager.offline_dirs == ["/d2"]

    simulate(fs, scenario)


@run_with(lambda test: simulate(MemoryFileSystem(), test))
async def test_a_flush_waits_for_the_one_that_is_under_way(manager: LogManager, /) -> None:
    await filled(manager, 1)
    (log,) = manager
    manager.flush_dirty(NOW_MS)
    append(log, make_batch())
    await manager.flush_log(log)
    assert log.recovery_point == log.log_end_offset == 21
    await manager.flush_log(log)
