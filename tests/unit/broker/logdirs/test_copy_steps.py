"""Single steps of copying: whom they blame, and what they leave."""

from __future__ import annotations

import errno

import pytest

from crabka.broker.logdirs.copy_steps import CopyBytes, FinishSegment, SyncCopy, sync_at_length
from crabka.broker.logdirs.disk_errors import SourceChangedError, has_no_room
from crabka.errors import StorageError
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem, no_space
from tests.support.moves.mirrors import TARGET_DIR, Mirror
from tests.support.storage.small import LOG_DIR, append, make_batch


def filled(count: int = 20) -> Mirror:
    mirror = Mirror()
    for _ in range(count):
        append(mirror.log, make_batch(1))
    return mirror


def test_a_target_that_fails_is_blamed() -> None:
    mirror = filled()
    mirror.copy.fs = FaultyFileSystem(mirror.memory, [FaultRule(operation="pwritev", error=errno.EIO)])
    step = mirror.copy.next_step()
    assert isinstance(step, CopyBytes)
    with pytest.raises(StorageError) as raised:
        step.run()
    assert raised.value.log_dir == TARGET_DIR


def test_a_full_target_is_distinguished() -> None:
    mirror = filled()
    mirror.copy.fs = FaultyFileSystem(mirror.memory, [no_space(keep_bytes=10)])
    step = mirror.copy.next_step()
    assert step is not None
    with pytest.raises(StorageError) as raised:
        step.run()
    assert has_no_room(raised.value)
    # What was torn is written anew.
    mirror.copy.fs = mirror.memory
    mirror.catch_up()
    mirror.assert_same()


def test_a_source_that_fails_is_blamed() -> None:
    mirror = filled()
    mirror.log.state.context.fs = FaultyFileSystem(mirror.memory, [FaultRule(operation="open", error=errno.EIO)])
    mirror.log.state.context.handles.forget(f"{LOG_DIR}/orders-0/{0:020d}.log")
    step = mirror.copy.next_step()
    assert step is not None
    with pytest.raises(StorageError) as raised:
        step.run()
    assert raised.value.log_dir == LOG_DIR


def test_a_segment_that_is_gone_is_chosen_anew() -> None:
    mirror = filled()
    step = mirror.copy.next_step()
    assert step is not None
    mirror.log.retention.delete_records_before(-1)
    mirror.log.retention.delete_below_log_start(0)
    with pytest.raises(SourceChangedError):
        step.run()
    mirror.catch_up()
    mirror.assert_same()


def test_a_sealed_segment_gets_its_indexes() -> None:
    mirror = filled()
    steps = []
    while (step := mirror.copy.next_step()) is not None:
        steps.append(type(step))
        step.run()
        mirror.copy.note(step)
    sealed = len(mirror.log.segment_base_offsets) - 1
    assert steps.count(FinishSegment) == sealed
    mirror.sync()
    mirror.assert_same()


def test_a_second_sync_without_news_touches_only_the_active_segment() -> None:
    mirror = filled()
    mirror.catch_up()
    touched: list[tuple[str, str]] = []
    watch = FaultRule(before=lambda operation, path: touched.append((operation, path)))
    mirror.copy.fs = FaultyFileSystem(mirror.memory, [watch])
    step = mirror.copy.sync_step()
    assert isinstance(step, SyncCopy)
    step.run()
    assert [operation for operation, _ in touched if operation in ("fsync", "fsync_dir", "rename")] == ["fsync"]


def test_a_file_ends_where_it_should() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    fs.fsync_dir("/")
    for size in (5, 2, 2):
        sync_at_length(fs, "/d/f", size)
        assert fs.stat("/d/f").size_bytes == size
