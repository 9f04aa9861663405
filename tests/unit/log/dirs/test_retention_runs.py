from __future__ import annotations

import errno
from dataclasses import replace

from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.dirs.log_manager import LogManager
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.async_tests import run_with
from tests.support.storage.managers import CONFIG, TIERED, TOPIC_ID, filled, partition, simulate, tiered_log
from tests.support.storage.small import NOW_MS, append, make_batch


def test_retention_checkpoints_log_starts_before_it_deletes() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        await filled(manager, 1)
        log = manager.get(partition(0))
        assert log is not None
        assert await manager.retention.run(NOW_MS + CONFIG.retention_ms + 10_000) > 0
        starts = read_offset_checkpoint(fs, f"{log.log_dir}/log-start-offset-checkpoint")
        assert starts == {partition(0): 20}

    simulate(fs, scenario)


def test_a_log_start_without_a_checkpoint_is_written_before_segments_go() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        await filled(manager, 1)
        log = manager.get(partition(0))
        assert log is not None
        log.retention.delete_records_before(6)
        assert await manager.retention.run(NOW_MS) > 0
        starts = read_offset_checkpoint(fs, f"{log.log_dir}/log-start-offset-checkpoint")
        assert starts == {partition(0): 6}

    simulate(fs, scenario)


def test_tiered_segments_go_one_by_one_once_the_log_start_is_written() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> int:
        log = await tiered_log(manager)
        await manager.flush_log(log)
        assert log.recovery_point == 20
        assert await manager.retention.run(NOW_MS) == 0
        log.tiering.note_remote_offset(15)
        assert await manager.retention.run(NOW_MS) > 0
        assert read_offset_checkpoint(fs, f"{log.log_dir}/log-start-offset-checkpoint") == {partition(0): 0}
        assert log.log_start_offset == 0
        return log.local_log_start_offset

    local_start = simulate(fs, scenario)
    assert local_start > 10
    fs.crash()

    async def reopened(manager: LogManager) -> None:
        await manager.load(lambda _topic: TIERED)
        log = manager.get(partition(0))
        assert log is not None
        assert (log.log_start_offset, log.local_log_start_offset) == (0, local_start)

    simulate(fs, reopened)


@run_with(lambda test: simulate(MemoryFileSystem(), test))
async def test_retention_seals_an_active_segment_that_the_tier_shall_take(manager: LogManager, /) -> None:
    await manager.load()
    log = manager.create(partition(0), TOPIC_ID, replace(TIERED, local_retention_bytes=-2, local_retention_ms=1000))
    append(log, make_batch())
    await manager.retention.run(NOW_MS + 1000)
    assert log.segment_base_offsets == [0]
    await manager.retention.run(NOW_MS + 1001)
    assert log.segment_base_offsets == [0, 1]


def test_a_dir_that_fails_while_tiered_segments_go_is_offline() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(manager: LogManager) -> None:
        log = await tiered_log(manager)
        await manager.flush_log(log)
        log.tiering.note_remote_offset(15)
        fs.add(FaultRule(operation="rename", path=f"{log.path}/*", error=errno.EIO))
        assert await manager.retention.run(NOW_MS) == 0
        assert manager.offline_dirs == [log.log_dir]

    simulate(fs, scenario)
