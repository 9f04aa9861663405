"""What every FileSystem promises, run on the real one, the one in memory and the faulty one without faults."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING, NamedTuple

import pytest

from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.vfs import OsFileSystem, read_file, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crabka.ports import FileSystem


class Disk(NamedTuple):
    fs: FileSystem
    root: str

    def write(self, name: str, data: bytes) -> str:
        path = f"{self.root}/{name}"
        file = self.fs.open(path, create=True)
        file.truncate(0)
        file.pwritev([data], 0)
        file.close()
        return path


@pytest.fixture(params=["os", "memory", "faulty"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    fs: FileSystem
    if request.param == "os":
        return Disk(OsFileSystem(), str(tmp_path))
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    return Disk(FaultyFileSystem(fs) if request.param == "faulty" else fs, "/data")


def test_reads_back_what_was_written_at_positions(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    assert file.pwritev([b"abc", memoryview(b"def"), bytearray(b"")], 0) == 6
    assert file.pwritev([b"XY"], 2) == 2
    assert file.pread(100, 0) == b"abXYef"
    assert file.pread(2, 3) == b"Ye"
    assert file.pread(5, 6) == b""
    assert file.size() == 6
    file.close()


def test_bytes_that_go_to_the_disk_early_stay_the_same(disk: Disk) -> None:
    file = disk.fs.open(disk.write("file", b"0123456789"))
    file.begin_writeback(5, 2)
    file.begin_writeback(100, 50)
    assert file.pread(10, 0) == b"0123456789"
    file.close()


@pytest.mark.parametrize("kind", ["same disk", "other disk"])
def test_copies_of_another_file_go_to_the_same_position(disk: Disk, kind: str) -> None:
    content = bytes(range(256)) * 20_000
    other = disk
    if kind == "other disk":
        other = Disk(MemoryFileSystem(), "/data")
        other.fs.makedirs("/data")
    source = other.fs.open(other.write("source", content), read_only=True)
    target = disk.fs.open(disk.write("target", b"kept"))
    assert target.copy_from(source, 3_000_000, 4) == 3_000_000
    assert target.copy_from(source, len(content), 3_000_004) == len(content) - 3_000_004
    assert target.copy_from(source, 10, len(content)) == 0
    assert target.pread(len(content) + 1, 0) == b"kept" + content[4:]
    source.close()
    target.close()


def test_write_past_the_end_leaves_zeros(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    file.pwritev([b"z"], 5)
    assert file.pread(10, 0) == b"\0\0\0\0\0z"
    file.close()


def test_writes_more_buffers_than_one_system_call_takes(disk: Disk) -> None:
    buffers = [bytes([index % 256]) * (index % 7) for index in range(5000)]
    file = disk.fs.open(f"{disk.root}/log", create=True)
    assert file.pwritev(buffers, 3) == sum(map(len, buffers))
    assert file.pread(file.size(), 3) == b"".join(buffers)
    file.close()


def test_writes_nothing_from_no_or_empty_buffers(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    assert file.pwritev([], 10) == 0
    assert file.pwritev([b"", b""], 10) == 0
    assert file.size() == 0
    file.close()


def test_read_without_waiting_gives_all_bytes_or_none(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    content = os.urandom(300_000)
    file.pwritev([content], 0)
    for length, position in [(10, 0), (300_000, 0), (400_000, 0), (3 << 20, 5), (7, 299_995), (1, 300_000)]:
        assert file.pread_nowait(length, position) in (None, content[position : position + length])
    file.close()


def test_bytes_go_from_a_file_to_a_socket_in_parts(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    content = os.urandom(3_000_000)
    file.pwritev([content], 0)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received = bytearray()
    with ours, theirs:
        while len(received) < len(content) - 7:
            # The peer has taken everything, so there is room.
            assert file.send_to(ours.fileno(), len(content) - 7 - len(received), 7 + len(received)) > 0
            theirs.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    received += theirs.recv(1 << 20)
        assert received == content[7:]
        assert file.send_to(ours.fileno(), 10, len(content)) == 0
        with contextlib.suppress(BlockingIOError):
            while True:
                assert file.send_to(ours.fileno(), 1_000_000, 0) > 0
        with pytest.raises(BlockingIOError):
            file.send_to(ours.fileno(), 1_000_000, 0)
    file.close()


def test_no_file_system_takes_missing_bytes_for_being_in_memory(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    file.pwritev([b"x" * 10_000], 0)
    assert file.in_memory(10_000, 0) in (True, False)
    assert not file.in_memory(10_000, 5_000)
    file.close()


def test_truncate_cuts_and_extends(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    file.pwritev([b"abcdef"], 0)
    file.truncate(3)
    assert file.pread(10, 0) == b"abc"
    file.truncate(5)
    assert file.pread(10, 0) == b"abc\0\0"
    file.close()


def test_fsync_works_on_files_and_directories(disk: Disk) -> None:
    file = disk.fs.open(f"{disk.root}/log", create=True)
    file.pwritev([b"abc"], 0)
    file.fsync()
    disk.fs.fsync_dir(disk.root)
    file.close()
    assert read_file(disk.fs, f"{disk.root}/log") == b"abc"


def test_handles_share_content_and_keep_it_after_unlink(disk: Disk) -> None:
    path = disk.write("log", b"abc")
    one, two = disk.fs.open(path), disk.fs.open(path, read_only=True)
    one.pwritev([b"Z"], 0)
    assert two.pread(3, 0) == b"Zbc"
    disk.fs.unlink(path)
    assert two.pread(3, 0) == b"Zbc"
    one.close()
    two.close()


def test_open_does_not_create_by_default(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.fs.open(f"{disk.root}/absent")
    with pytest.raises(FileNotFoundError):
        disk.fs.open(f"{disk.root}/no/such", create=True)
    disk.fs.open(f"{disk.root}/new", exclusive=True).close()
    with pytest.raises(FileExistsError):
        disk.fs.open(f"{disk.root}/new", exclusive=True)


def test_open_keeps_the_content_that_exists(disk: Disk) -> None:
    path = disk.write("log", b"abc")
    file = disk.fs.open(path, create=True)
    assert file.size() == 3
    assert file.path == path
    file.close()


@pytest.mark.parametrize("read_only", [True, False])
def test_open_refuses_directories(disk: Disk, read_only: bool) -> None:
    with pytest.raises(IsADirectoryError):
        disk.fs.open(disk.root, read_only=read_only)


def test_read_only_handle_refuses_changes(disk: Disk) -> None:
    file = disk.fs.open(disk.write("log", b"abc"), read_only=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwritev([b"x"], 0)
    with pytest.raises(OSError, match="Invalid argument"):
        file.truncate(0)
    file.close()


def test_closed_handle_refuses_everything_but_close(disk: Disk) -> None:
    file = disk.fs.open(disk.write("log", b"abc"))
    file.close()
    file.close()
    uses: list[Callable[[], object]] = [
        lambda: file.pwritev([b"x"], 0),
        lambda: file.pread(1, 0),
        lambda: file.truncate(0),
        file.size,
        file.fsync,
    ]
    for use in uses:
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


def test_stat_reports_size_and_kind(disk: Disk) -> None:
    path = disk.write("log", b"abc")
    assert disk.fs.stat(path).size_bytes == 3
    assert not disk.fs.stat(path).is_dir
    assert disk.fs.stat(disk.root).is_dir
    with pytest.raises(FileNotFoundError):
        disk.fs.stat(f"{disk.root}/absent")
    with pytest.raises(NotADirectoryError):
        disk.fs.stat(f"{path}/below")


def test_exists_is_false_without_error(disk: Disk) -> None:
    path = disk.write("log", b"")
    assert disk.fs.exists(path)
    assert disk.fs.exists(disk.root)
    assert not disk.fs.exists(f"{disk.root}/absent")
    assert not disk.fs.exists(f"{path}/below")


def test_listdir_is_sorted(disk: Disk) -> None:
    for name in ("b", "a", "c"):
        disk.write(name, b"")
    assert disk.fs.listdir(disk.root) == ["a", "b", "c"]
    with pytest.raises(FileNotFoundError):
        disk.fs.listdir(f"{disk.root}/absent")
    with pytest.raises(NotADirectoryError):
        disk.fs.listdir(f"{disk.root}/a")


def test_makedirs_makes_parents_and_may_be_repeated(disk: Disk) -> None:
    disk.fs.makedirs(f"{disk.root}/a/b/c")
    disk.fs.makedirs(f"{disk.root}/a/b/c")
    assert disk.fs.listdir(f"{disk.root}/a/b") == ["c"]


def test_makedirs_refuses_files_in_its_way(disk: Disk) -> None:
    path = disk.write("file", b"")
    with pytest.raises(FileExistsError):
        disk.fs.makedirs(path)
    with pytest.raises(NotADirectoryError):
        disk.fs.makedirs(f"{path}/a/b")


def test_rename_replaces_a_file_and_keeps_handles(disk: Disk) -> None:
    old, new = disk.write("old", b"1"), disk.write("new", b"2")
    file = disk.fs.open(old)
    disk.fs.rename(old, new)
    assert disk.fs.listdir(disk.root) == ["new"]
    file.pwritev([b"3"], 0)
    assert read_file(disk.fs, new) == b"3"
    file.close()


def test_rename_moves_directories_with_their_content(disk: Disk) -> None:
    disk.fs.makedirs(f"{disk.root}/topic-0")
    disk.fs.makedirs(f"{disk.root}/trash")
    disk.write("topic-0/log", b"abc")
    disk.fs.rename(f"{disk.root}/topic-0", f"{disk.root}/trash/topic-0")
    assert read_file(disk.fs, f"{disk.root}/trash/topic-0/log") == b"abc"
    assert disk.fs.listdir(disk.root) == ["trash"]


def test_rename_refuses_what_the_operating_system_refuses(disk: Disk) -> None:
    file = disk.write("file", b"")
    full, empty = f"{disk.root}/full", f"{disk.root}/empty"
    disk.fs.makedirs(f"{full}/sub")
    disk.fs.makedirs(empty)
    with pytest.raises(FileNotFoundError):
        disk.fs.rename(f"{disk.root}/absent", f"{disk.root}/x")
    with pytest.raises(FileNotFoundError):
        disk.fs.rename(file, f"{disk.root}/absent/x")
    with pytest.raises(IsADirectoryError):
        disk.fs.rename(file, empty)
    with pytest.raises(NotADirectoryError):
        disk.fs.rename(empty, file)
    with pytest.raises(OSError, match="not empty"):
        disk.fs.rename(empty, full)
    with pytest.raises(OSError, match="Invalid argument"):
        disk.fs.rename(full, f"{full}/sub/x")
    disk.fs.rename(file, file)
    disk.fs.rename(full, empty)
    assert disk.fs.listdir(disk.root) == ["empty", "file"]


def test_unlink_removes_files_only(disk: Disk) -> None:
    path = disk.write("log", b"")
    disk.fs.unlink(path)
    assert not disk.fs.exists(path)
    with pytest.raises(FileNotFoundError):
        disk.fs.unlink(path)
    with pytest.raises(IsADirectoryError):
        disk.fs.unlink(disk.root)


def test_rmtree_removes_everything_below(disk: Disk) -> None:
    disk.fs.makedirs(f"{disk.root}/a/b")
    disk.write("a/b/log", b"x")
    path = disk.write("log", b"x")
    disk.fs.rmtree(f"{disk.root}/a")
    assert disk.fs.listdir(disk.root) == ["log"]
    with pytest.raises(FileNotFoundError):
        disk.fs.rmtree(f"{disk.root}/a")
    with pytest.raises(NotADirectoryError):
        disk.fs.rmtree(path)


def test_rmdir_removes_only_what_is_empty(disk: Disk) -> None:
    disk.fs.makedirs(f"{disk.root}/a")
    path = disk.write("a/log", b"x")
    with pytest.raises(OSError, match="not empty") as refusal:
        disk.fs.rmdir(f"{disk.root}/a")
    assert refusal.value.errno == errno.ENOTEMPTY
    with pytest.raises(NotADirectoryError):
        disk.fs.rmdir(path)
    disk.fs.unlink(path)
    disk.fs.rmdir(f"{disk.root}/a")
    assert disk.fs.listdir(disk.root) == []
    with pytest.raises(FileNotFoundError):
        disk.fs.rmdir(f"{disk.root}/a")


def test_disk_usage_is_plausible(disk: Disk) -> None:
    usage = disk.fs.disk_usage(disk.root)
    assert 0 < usage.free_bytes <= usage.total_bytes
    with pytest.raises(FileNotFoundError):
        disk.fs.disk_usage(f"{disk.root}/absent")


def test_lock_excludes_until_closed(disk: Disk) -> None:
    path = f"{disk.root}/.lock"
    held = disk.fs.lock(path)
    with pytest.raises(BlockingIOError):
        disk.fs.lock(path)
    disk.fs.open(path).close()  # closing another handle does not release it
    with pytest.raises(BlockingIOError):
        disk.fs.lock(path)
    held.close()
    disk.fs.lock(path).close()


def test_write_atomic_replaces_and_leaves_no_temporary_file(disk: Disk) -> None:
    path = disk.write("checkpoint", b"something longer")
    disk.write("checkpoint.tmp", b"leftover of a crash, longer than the rest")
    write_atomic(disk.fs, path, b"new")
    assert read_file(disk.fs, path) == b"new"
    assert disk.fs.listdir(disk.root) == ["checkpoint"]


def test_read_file_raises_when_absent(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(disk.fs, f"{disk.root}/absent")
