from __future__ import annotations

import errno

import pytest

from crabka.log.dirs.log_manager import LogManager
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.async_tests import run_with
from tests.support.storage.managers import DIRS, filled, partition, simulate


def test_a_deleted_log_goes_after_the_delay() -> None:
    fs = MemoryFileSystem()

    async def scenario(manager: LogManager) -> None:
        await filled(manager, 1)
        manager.delete(partition(0))
        manager.delete(partition(5))
        assert manager.get(partition(0)) is None
        assert manager.removal.delete_due(0) is None
        removal = manager.removal.delete_due(1 << 60)
        assert removal is not None
        await removal

    simulate(fs, scenario)
    assert not [name for name in fs.listdir("/d1") + fs.listdir("/d2") if name.startswith("orders")]


@pytest.mark.parametrize(("error", "offline"), [(errno.EIO, ["/d1"]), (errno.EACCES, [])])
def test_a_disk_that_cannot_remove_files_goes_offline(error: int, offline: list[str]) -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(manager: LogManager) -> None:
        await filled(manager)
        for index in range(4):
            manager.delete(partition(index))
        fs.add(FaultRule(operation="rmtree", path="/d1/*", error=error))
        removal = manager.removal.delete_due(1 << 60)
        assert removal is not None
        await removal
        assert manager.offline_dirs == offline
        assert not any(name.endswith("-delete") for name in fs.listdir("/d2"))
        assert manager.removal.delete_due(1 << 61) is None

    simulate(fs, scenario)


@run_with(lambda test: simulate(MemoryFileSystem(), test))
async def test_a_dir_that_failed_is_not_tidied_up(manager: LogManager, /) -> None:
    await filled(manager)
    manager.delete(partition(0))
    for path in DIRS:
        manager.on_dir_failure(path, OSError("gone"))
    assert manager.removal.delete_due(1 << 60) is None


def test_a_deletion_that_was_interrupted_goes_on_at_the_next_start() -> None:
    fs = MemoryFileSystem()

    async def first(manager: LogManager) -> None:
        await filled(manager, 1)
        manager.delete(partition(0))
        await manager.shutdown()

    async def second(manager: LogManager) -> None:
        await manager.load()
        removal = manager.removal.delete_due(1 << 60)
        assert removal is not None
        await removal

    simulate(fs, first)
    simulate(fs, second)
    assert not [name for name in fs.listdir("/d1") + fs.listdir("/d2") if name.startswith("orders")]
