from __future__ import annotations

import errno
import random

import pytest

from crabka.testing import MemoryFileSystem
from crabka.vfs import read_file, write_atomic


def put(fs: MemoryFileSystem, path: str, data: bytes, *, synced: bool) -> None:
    file = fs.open(path, create=True)
    file.pwritev([data], 0)
    if synced:
        file.fsync()
    file.close()


def test_crash_loses_content_that_was_not_synced() -> None:
    fs = MemoryFileSystem()
    put(fs, "/log", b"synced", synced=True)
    fs.fsync_dir("/")
    put(fs, "/log", b"SYNCED and more", synced=False)
    fs.crash()
    assert read_file(fs, "/log") == b"synced"


def test_crash_loses_a_synced_file_whose_name_was_not() -> None:
    fs = MemoryFileSystem()
    put(fs, "/log", b"synced", synced=True)
    fs.crash()
    assert fs.listdir("/") == []


def test_crash_leaves_an_empty_file_when_only_the_name_was_synced() -> None:
    fs = MemoryFileSystem()
    put(fs, "/log", b"content", synced=False)
    fs.fsync_dir("/")
    fs.crash()
    assert read_file(fs, "/log") == b""


def test_crash_undoes_unlink_rename_and_mkdir_that_were_not_synced() -> None:
    fs = MemoryFileSystem()
    put(fs, "/unlinked", b"1", synced=True)
    put(fs, "/renamed", b"2", synced=True)
    fs.fsync_dir("/")
    fs.unlink("/unlinked")
    fs.rename("/renamed", "/new-name")
    fs.makedirs("/a/b")
    fs.crash()
    assert fs.listdir("/") == ["renamed", "unlinked"]
    assert read_file(fs, "/unlinked") == b"1"


def test_directory_needs_its_parent_synced() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/topic-0")
    put(fs, "/topic-0/log", b"x", synced=True)
    fs.fsync_dir("/topic-0")
    twin = fs.clone()
    fs.crash()
    assert fs.listdir("/") == []
    twin.fsync_dir("/")
    twin.crash()
    assert read_file(twin, "/topic-0/log") == b"x"


def test_rename_between_directories_is_one_step() -> None:
    for directory in ("/a", "/b"):
        fs = MemoryFileSystem()
        fs.makedirs("/a")
        fs.makedirs("/b")
        fs.fsync_dir("/")
        put(fs, "/a/f", b"x", synced=True)
        fs.fsync_dir("/a")
        fs.rename("/a/f", "/b/f")
        fs.fsync_dir(directory)
        fs.crash()
        assert (fs.listdir("/a"), fs.listdir("/b")) == ([], ["f"])


def test_partly_removed_tree_can_come_back() -> None:
    outcomes = set()
    for seed in range(60):
        fs = MemoryFileSystem()
        fs.makedirs("/t")
        fs.fsync_dir("/")
        put(fs, "/t/1", b"x", synced=True)
        put(fs, "/t/2", b"x", synced=True)
        fs.fsync_dir("/t")
        fs.rmtree("/t")
        fs.crash(random.Random(seed))
        outcomes.add(tuple(fs.listdir("/t")) if fs.exists("/t") else None)
    assert outcomes == {None, (), ("1",), ("2",), ("1", "2")}


def test_what_survives_is_durable_from_then_on() -> None:
    for seed in range(50):
        fs = MemoryFileSystem()
        put(fs, "/log", b"x" * 10_000, synced=False)
        fs.crash(random.Random(seed))
        names = fs.listdir("/")
        content = [read_file(fs, name) for name in names]
        fs.crash()
        assert fs.listdir("/") == names
        assert [read_file(fs, name) for name in names] == content


def test_handles_and_locks_die_with_a_crash() -> None:
    fs = MemoryFileSystem()
    lock = fs.lock("/.lock")
    fs.fsync_dir("/")
    file = fs.open("/.lock")
    fs.crash()
    for use in (file.size, file.fsync, lambda: file.pread(1, 0), lambda: file.pwritev([b"x"], 0)):
        with pytest.raises(OSError, match="Stale"):
            use()
    file.close()
    again = fs.lock("/.lock")
    lock.close()  # a handle of the past must not release the lock of today
    with pytest.raises(BlockingIOError):
        fs.lock("/.lock")
    again.close()


def test_write_atomic_leaves_the_old_or_the_new_content_at_any_crash() -> None:
    outcomes = set()
    for seed in range(200):
        rng = random.Random(seed)
        fs = MemoryFileSystem()
        write_atomic(fs, "/checkpoint", b"old" * 5000)
        steps = rng.randrange(6)
        write_atomic_until(fs, b"new" * 6000, steps)
        fs.crash(rng)
        content = read_file(fs, "/checkpoint")
        assert content in (b"old" * 5000, b"new" * 6000)
        outcomes.add(content[:3])
    assert outcomes == {b"old", b"new"}


def write_atomic_until(fs: MemoryFileSystem, data: bytes, steps: int) -> None:
    """Crash inside write_atomic after some of its steps."""

    class PowerCutError(Exception):
        pass

    class Countdown:
        def __getattr__(self, name: str) -> object:
            nonlocal steps
            if steps == 0:
                raise PowerCutError
            steps -= 1
            return getattr(fs, name)

    try:
        write_atomic(Countdown(), "/checkpoint", data)  # type: ignore[arg-type]
    except PowerCutError:
        return


def test_full_disk_keeps_the_prefix_that_fits() -> None:
    fs = MemoryFileSystem(capacity_bytes=10)
    file = fs.open("/log", create=True)
    file.pwritev([b"12345678"], 0)
    with pytest.raises(OSError, match="No space") as caught:
        file.pwritev([b"abcdef"], 8)
    assert caught.value.errno == errno.ENOSPC
    assert file.pread(100, 0) == b"12345678ab"
    assert fs.disk_usage("/") == (10, 0)
    file.pwritev([b"overwriting needs no space"[:10]], 0)
    file.truncate(4)
    file.pwritev([b"again!"], 4)
    fs.unlink("/log")
    assert fs.disk_usage("/").free_bytes == 10


def test_space_in_use_is_right_after_rename_and_crash() -> None:
    fs = MemoryFileSystem(capacity_bytes=100)
    put(fs, "/a", b"12345", synced=True)
    fs.fsync_dir("/")
    put(fs, "/b", b"1234567", synced=True)
    fs.rename("/b", "/a")
    assert fs.disk_usage("/").free_bytes == 93
    fs.crash()
    assert fs.disk_usage("/").free_bytes == 95


def test_clone_is_independent_on_both_sides() -> None:
    fs = MemoryFileSystem()
    put(fs, "/log", b"one", synced=True)
    fs.fsync_dir("/")
    twin = fs.clone()
    put(fs, "/log", b"two", synced=True)
    twin.unlink("/log")
    assert read_file(fs, "/log") == b"two"
    twin.crash()
    assert read_file(twin, "/log") == b"one"


def test_time_of_change_comes_from_the_clock_given() -> None:
    now = [1000]
    fs = MemoryFileSystem(now_ms=lambda: now[0])
    put(fs, "/log", b"x", synced=True)
    now[0] = 2000
    assert fs.stat("/log").modified_ms == 1000
    put(fs, "/log", b"y", synced=True)
    assert fs.stat("/log").modified_ms == 2000


def test_negative_positions_are_refused() -> None:
    fs = MemoryFileSystem()
    file = fs.open("/log", create=True)
    with pytest.raises(OSError, match="Invalid"):
        file.pread(1, -1)
    with pytest.raises(OSError, match="Invalid"):
        file.pwritev([b"x"], -1)
    with pytest.raises(OSError, match="Invalid"):
        file.truncate(-1)


def test_rot_is_durable_and_leaves_size_and_time_alone() -> None:
    now_ms = 5
    fs = MemoryFileSystem(now_ms=lambda: now_ms)
    write_atomic(fs, "/file", b"abc")
    now_ms = 9
    fs.rot("/file", 1, 0x20)
    assert fs.stat("/file") == (3, 5, False)
    fs.crash()
    assert read_file(fs, "/file") == b"aBc"
    for path, position in (("/file", 3), ("/file", -1), ("/", 0)):
        with pytest.raises(OSError, match="Invalid argument"):
            fs.rot(path, position)
