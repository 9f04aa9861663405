from __future__ import annotations

import errno
import logging

import pytest

from crabka.errors import StorageError
from crabka.log.dirs.log_manager import LogManager
from crabka.log.segment.descriptors import MAX_SEALED, LogDescriptors
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.storage.managers import CONFIG, TOPIC_ID, partition, simulate
from tests.support.storage.small import NOW_MS, append, make_batch


def test_logs_have_a_share_of_the_limit() -> None:
    descriptors = LogDescriptors(4096)
    assert (descriptors.active.capacity, descriptors.sealed_capacity) == (1024, 256)
    assert descriptors.unclaimed == 256 + 1280 + 256
    assert LogDescriptors(None).sealed_capacity == LogDescriptors(10**6).sealed_capacity == MAX_SEALED
    assert LogDescriptors(3).active.capacity == 1


def test_a_process_without_descriptors_keeps_its_log_dirs_and_goes_on_when_it_has_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(manager: LogManager) -> None:
        await manager.load()
        log = manager.create(partition(0), TOPIC_ID, CONFIG)
        fs.add(FaultRule(operation="open", path="*.log", error=errno.EMFILE, times=2))
        for _ in range(2):
            with pytest.raises(StorageError, match="Too many open files") as raised:
                append(log, make_batch(1))
            manager.on_dir_failure(raised.value.log_dir, raised.value)
        assert not manager.offline_dirs
        assert append(log, make_batch(1)) == 0
        await manager.shutdown()

    with caplog.at_level(logging.WARNING):
        simulate(fs, scenario)
    assert [record.message for record in caplog.records if "no descriptor is left" in record.message] == [
        record.message for record in caplog.records
    ]
    assert len(caplog.records) == 1


def test_a_log_without_a_descriptor_fails_reads_and_deferred_appends_as_storage_does() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(manager: LogManager) -> None:
        await manager.load()
        log = manager.create(partition(0), TOPIC_ID, CONFIG)
        append(log, make_batch(1))
        log.read(log.log_end_offset, max_bytes=100)
        append(log, make_batch(1))
        log.state.active.sync_and_rest()
        rule = fs.add(FaultRule(operation="open", path="*.log", error=errno.EMFILE))
        for offset in (0, 1):
            with pytest.raises(StorageError, match="Too many open files"):
                log.read(offset, max_bytes=100)
        with pytest.raises(StorageError, match="Too many open files"):
            log.append_as_leader(make_batch(1), leader_epoch=0, now_ms=NOW_MS, deferred=True)
        assert not log.is_being_written
        fs.remove(rule)
        assert append(log, make_batch(1)) == 2
        await manager.shutdown()

    simulate(fs, scenario)


def test_a_disk_that_fails_is_none_of_it() -> None:
    descriptors = LogDescriptors(4096)
    assert not descriptors.is_exhausted(None)
    assert not descriptors.is_exhausted(OSError(errno.EIO, "Input/output error"))
    assert not descriptors.is_exhausted(StorageError("/d1", "no log dir is online"))
