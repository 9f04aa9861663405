"""Small files with a copy: rot, crashes, other writers and full disks."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from crabka.ports import FileSystem
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs import OsFileSystem, read_file, read_guarded, settle_guarded, write_atomic, write_guarded
from crabka.vfs.guarded_file import Finding, copy_path
from tests.support.faults.rotting import rot

PATH = "/data/checkpoint"
COPY = "/data/crabka-copy-of-checkpoint"
OLD, NEW = b"0\n1\norders 0 17\n", b"0\n1\norders 0 25\n"
STEPS = ("open", "truncate", "pwritev", "fsync", "stat", "rename", "fsync_dir")


class Ticking:
    """The clock of a disk: it stands still or advances by one with each look."""

    def __init__(self, step_ms: int) -> None:
        self.now_ms = 1_000
        self.step_ms = step_ms

    def __call__(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms


def make_disk(step_ms: int = 1) -> MemoryFileSystem:
    fs = MemoryFileSystem(now_ms=Ticking(step_ms))
    fs.makedirs("/data")
    fs.fsync_dir("/")
    return fs


def content(fs: FileSystem) -> bytes:
    return read_guarded(fs, PATH).data


def test_the_copy_lies_beside_the_file() -> None:
    assert copy_path(PATH) == COPY
    assert copy_path("checkpoint") == "crabka-copy-of-checkpoint"


def test_a_written_file_has_exactly_its_content_and_is_durable_with_its_copy() -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    fs.crash()
    assert read_file(fs, PATH) == OLD
    assert fs.listdir("/data") == ["checkpoint", "crabka-copy-of-checkpoint"]
    assert read_guarded(fs, PATH).finding is Finding.WHOLE


def test_a_file_without_a_name_of_a_directory_works() -> None:
    fs = MemoryFileSystem()
    write_guarded(fs, "checkpoint", OLD)
    rot(fs, "checkpoint", 3)
    assert read_guarded(fs, "checkpoint").data == OLD


@pytest.mark.parametrize("data", [b"", b"\n", b" 1\n\n", bytes(range(256))])
def test_any_content_is_kept(data: bytes) -> None:
    fs = make_disk()
    write_guarded(fs, PATH, data)
    assert read_guarded(fs, PATH)[::2] == (data, Finding.WHOLE)


@pytest.mark.parametrize("position", range(len(OLD)))
def test_a_rotten_file_counts_as_it_was_written_and_is_written_anew(position: int) -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    rot(fs, PATH, position)
    found = read_guarded(fs, PATH)
    assert (found.data, found.finding) == (OLD, Finding.ROTTEN)
    assert read_file(fs, PATH) != OLD  # reading writes nothing
    assert "its bytes have changed" in settle_guarded(fs, PATH, found)
    fs.crash()
    assert read_file(fs, PATH) == OLD
    assert read_guarded(fs, PATH).finding is Finding.WHOLE
    assert settle_guarded(fs, PATH, read_guarded(fs, PATH)) == ""


def test_any_rotten_byte_of_the_copy_is_noticed_and_the_file_counts() -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    for position in range(fs.stat(COPY).size_bytes):
        rot(fs, COPY, position)
        found = read_guarded(fs, PATH)
        assert (found.data, found.finding) == (OLD, Finding.COPY_DAMAGED)
        assert "its checksum is wrong" in settle_guarded(fs, PATH, found)
        assert read_guarded(fs, PATH).finding is Finding.WHOLE
    rot(fs, PATH, 13)
    assert content(fs) == OLD


def test_with_both_rotten_the_file_counts_as_it_is() -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    rot(fs, PATH, 13)
    rot(fs, COPY, 20)
    assert read_guarded(fs, PATH)[::2] == (read_file(fs, PATH), Finding.COPY_DAMAGED)


def test_a_copy_that_cannot_be_read_does_not_keep_the_file_from_being_read() -> None:
    fs = FaultyFileSystem(make_disk())
    write_guarded(fs, PATH, OLD)
    fs.add(FaultRule(operation="pread", path=COPY, error=errno.EIO))
    assert read_guarded(fs, PATH)[::2] == (OLD, Finding.COPY_DAMAGED)


def test_a_file_that_cannot_be_read_is_an_error_of_the_disk() -> None:
    fs = FaultyFileSystem(make_disk())
    write_guarded(fs, PATH, OLD)
    fs.add(FaultRule(operation="pread", path=PATH, error=errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        read_guarded(fs, PATH)


@pytest.mark.parametrize("other", [NEW, b"0\n0\n", b"not even a checkpoint"])
def test_another_writer_counts_and_gets_a_copy(other: bytes) -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    write_atomic(fs, PATH, other)
    found = read_guarded(fs, PATH)
    assert (found.data, found.finding) == (other, Finding.UNGUARDED)
    assert settle_guarded(fs, PATH, found) == ""
    rot(fs, PATH, 1)
    assert content(fs) == other


def test_a_file_of_another_program_gets_a_copy() -> None:
    fs = make_disk()
    write_atomic(fs, PATH, OLD)
    found = read_guarded(fs, PATH)
    assert (found.data, found.finding) == (OLD, Finding.UNGUARDED)
    assert settle_guarded(fs, PATH, found) == ""
    rot(fs, PATH, 13)
    assert content(fs) == OLD


def test_a_moved_directory_whose_files_got_new_times_is_guarded_again() -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    fs.makedirs("/moved")
    for name in ("checkpoint", "crabka-copy-of-checkpoint"):
        write_atomic(fs, f"/moved/{name}", read_file(fs, f"/data/{name}"))
    found = read_guarded(fs, "/moved/checkpoint")
    assert (found.data, found.finding) == (OLD, Finding.UNGUARDED)
    settle_guarded(fs, "/moved/checkpoint", found)
    rot(fs, "/moved/checkpoint", 13)
    assert read_guarded(fs, "/moved/checkpoint").data == OLD


def test_a_missing_file_stays_missing() -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    fs.unlink(PATH)
    with pytest.raises(FileNotFoundError):
        read_guarded(fs, PATH)


# -- crashes, full disks ---------------------------------------------------------------------------------------------


class CutOffError(Exception):
    """The power went."""


def cut_off(inner: MemoryFileSystem, steps: int) -> FaultyFileSystem:
    """Return a disk whose power goes after so many operations."""
    fs = FaultyFileSystem(inner)

    def stop(operation: str, _path: str) -> None:
        nonlocal steps
        if operation in STEPS:
            steps -= 1
            if steps < 0:
                raise CutOffError

    fs.add(FaultRule(before=stop))
    return fs


def write_until(fs: MemoryFileSystem, data: bytes, steps: int) -> bool:
    """Write until the power goes after so many operations; return whether the write came to its end."""
    try:
        write_guarded(cut_off(fs, steps), PATH, data)
    except CutOffError:
        return False
    return True


# The times of both contents differ, or are the same on a disk with a coarse clock.
@pytest.mark.parametrize("step_ms", [1, 0])
@pytest.mark.parametrize("is_killed", [True, False], ids=["process killed", "power cut"])
def test_a_crash_at_any_step_leaves_the_old_or_the_new_content(is_killed: bool, step_ms: int) -> None:
    steps, is_done = 0, False
    while not is_done:
        for seed in range(40):
            fs = make_disk(step_ms)
            write_guarded(fs, PATH, OLD)
            is_done = write_until(fs, NEW, steps)
            if not is_killed:
                fs.crash(random.Random(seed) if seed else None)
            found = read_guarded(fs, PATH)
            assert found.data == NEW if is_done else found.data in (OLD, NEW)
            assert settle_guarded(fs, PATH, found) == "" or step_ms == 0
            assert read_guarded(fs, PATH)[::2] == (found.data, Finding.WHOLE)
        steps += 1
    assert steps > 8


def test_a_process_killed_at_any_step_of_a_write_over_a_rotten_file_does_not_leave_the_rot() -> None:
    steps, is_done = 0, False
    while not is_done:
        fs = make_disk()
        write_guarded(fs, PATH, OLD)
        rot(fs, PATH, 13)
        is_done = write_until(fs, NEW, steps)
        assert content(fs) in (OLD, NEW)
        steps += 1


@pytest.mark.parametrize("is_killed", [True, False], ids=["process killed", "power cut"])
def test_a_crash_at_any_step_of_a_repair_does_not_leave_the_rot(is_killed: bool) -> None:
    steps, is_done = 0, False
    while not is_done:
        for seed in range(40):
            fs = make_disk()
            write_guarded(fs, PATH, OLD)
            rot(fs, PATH, 13)
            found = read_guarded(fs, PATH)
            try:
                settle_guarded(cut_off(fs, steps), PATH, found)
                is_done = True
            except CutOffError:
                is_done = False
            if not is_killed:
                fs.crash(random.Random(seed) if seed else None)
            assert content(fs) == OLD
        steps += 1
    assert steps > 8


@pytest.mark.parametrize("room", range(2 * len(NEW) + 13))
def test_a_full_disk_at_any_byte_leaves_the_old_state_whole(room: int) -> None:
    fs = make_disk()
    write_guarded(fs, PATH, OLD)
    usage = fs.disk_usage("/")
    fs.capacity_bytes = usage.total_bytes - usage.free_bytes + room
    with pytest.raises(OSError, match="No space left"):
        write_guarded(fs, PATH, NEW)
    assert read_guarded(fs, PATH)[::2] == (OLD, Finding.WHOLE)
    fs.capacity_bytes += 1000
    write_guarded(fs, PATH, NEW)
    assert read_guarded(fs, PATH)[::2] == (NEW, Finding.WHOLE)


@pytest.mark.parametrize("operation", ["open", "truncate", "pwritev", "fsync", "rename"])
def test_the_old_content_stands_when_a_step_fails(operation: str) -> None:
    fs = FaultyFileSystem(make_disk())
    write_guarded(fs, PATH, OLD)
    rule = fs.add(FaultRule(operation=operation, error=errno.EIO, times=1))
    with pytest.raises(OSError, match="Input/output error"):
        write_guarded(fs, PATH, NEW)
    assert rule.fired_count == 1
    assert read_guarded(fs, PATH)[::2] == (OLD, Finding.WHOLE)


def test_a_repair_that_the_disk_refuses_is_no_error_and_is_made_next_time() -> None:
    fs = FaultyFileSystem(make_disk())
    write_guarded(fs, PATH, OLD)
    rot(fs, PATH, 13)
    rule = fs.add(FaultRule(operation="pwritev", error=errno.ENOSPC))
    assert "that failed" in settle_guarded(fs, PATH, read_guarded(fs, PATH))
    assert read_guarded(fs, PATH).data == OLD
    fs.remove(rule)
    settle_guarded(fs, PATH, read_guarded(fs, PATH))
    assert read_file(fs, PATH) == OLD


def test_a_file_that_gets_no_copy_is_named() -> None:
    fs = FaultyFileSystem(make_disk())
    write_atomic(fs, PATH, OLD)
    fs.add(FaultRule(operation="pwritev", error=errno.EROFS))
    assert f"{PATH} gets no copy" in settle_guarded(fs, PATH, read_guarded(fs, PATH))


def test_a_real_disk_keeps_times_as_rot_does(tmp_path: Path) -> None:
    fs, path = OsFileSystem(), tmp_path / "checkpoint"
    write_guarded(fs, str(path), OLD)
    times = path.stat()
    path.write_bytes(NEW)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read_guarded(fs, str(path))[::2] == (OLD, Finding.ROTTEN)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 5_000_000))
    assert read_guarded(fs, str(path))[::2] == (NEW, Finding.UNGUARDED)
