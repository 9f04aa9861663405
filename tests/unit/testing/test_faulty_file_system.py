from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem, disk_failure, no_space, read_only_disk
from crabka.testing.faulty_file_system import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def fs() -> FaultyFileSystem:
    inner = MemoryFileSystem()
    inner.makedirs("/data/topic-0")
    return FaultyFileSystem(inner)


def test_nth_operation_fails_and_later_ones_succeed(fs: FaultyFileSystem) -> None:
    rule = fs.add(FaultRule(operation="fsync", error=errno.EIO, skip=1, times=1))
    file = fs.open("/data/log", create=True)
    file.fsync()
    with pytest.raises(OSError, match="Input/output error"):
        file.fsync()
    file.fsync()
    assert (rule.matched_count, rule.fired_count) == (3, 1)


def test_rules_match_paths_by_glob(fs: FaultyFileSystem) -> None:
    fs.add(FaultRule(operation="open", path="*.index", error=errno.EIO))
    fs.open("/data/topic-0/0.log", create=True).close()
    with pytest.raises(OSError, match=r"0\.index"):
        fs.open("/data/topic-0/0.index", create=True)


def test_full_disk_tears_a_write(fs: FaultyFileSystem) -> None:
    rule = fs.add(no_space("*.log", keep_bytes=5))
    file = fs.open("/data/0.log", create=True)
    with pytest.raises(OSError, match="No space"):
        file.pwritev([b"abc", b"def"], 0)
    assert file.pread(10, 0) == b"abcde"
    fs.remove(rule)
    file.pwritev([b"abc", b"def"], 0)
    assert file.pread(10, 0) == b"abcdef"


def test_cold_reads_are_pretended(fs: FaultyFileSystem) -> None:
    fs.add(FaultRule(path="*.log", would_block=True))
    file = fs.open("/data/0.log", create=True)
    file.pwritev([b"abc"], 0)
    assert file.pread_nowait(3, 0) is None
    assert file.pread(3, 0) == b"abc"


def test_callback_sees_the_operation_before_it_happens(fs: FaultyFileSystem) -> None:
    seen: list[tuple[str, str]] = []
    fs.add(FaultRule(operation="rename", before=lambda operation, path: seen.append((operation, path))))
    fs.open("/data/a", create=True).close()
    fs.rename("/data/a", "/data/b")
    assert seen == [("rename", "/data/a")]
    assert fs.exists("/data/b")


def test_dead_disk_fails_every_operation_but_close(fs: FaultyFileSystem) -> None:
    file = fs.open("/data/log", create=True)
    fs.add(disk_failure("/data*"))
    uses: dict[str, Callable[[], object]] = {
        "open": lambda: fs.open("/data/log"),
        "stat": lambda: fs.stat("/data/log"),
        "listdir": lambda: fs.listdir("/data"),
        "makedirs": lambda: fs.makedirs("/data/x"),
        "rename": lambda: fs.rename("/data/log", "/data/x"),
        "unlink": lambda: fs.unlink("/data/log"),
        "rmdir": lambda: fs.rmdir("/data"),
        "rmtree": lambda: fs.rmtree("/data"),
        "fsync_dir": lambda: fs.fsync_dir("/data"),
        "disk_usage": lambda: fs.disk_usage("/data"),
        "lock": lambda: fs.lock("/data/.lock"),
        "pwritev": lambda: file.pwritev([b"x"], 0),
        "pread": lambda: file.pread(1, 0),
        "pread_nowait": lambda: file.pread_nowait(1, 0),
        "send_to": lambda: file.send_to(1, 1, 0),
        "truncate": lambda: file.truncate(0),
        "fsync": file.fsync,
    }
    assert uses.keys() == OPERATIONS
    for use in uses.values():
        with pytest.raises(OSError, match="Input/output error"):
            use()
    assert file.size() == 0
    file.close()


def test_read_only_disk_refuses_changes_and_allows_reads(fs: FaultyFileSystem) -> None:
    file = fs.open("/data/log", create=True)
    file.pwritev([b"abc"], 0)
    fs.rules += read_only_disk()
    with pytest.raises(OSError, match="Read-only"):
        file.pwritev([b"x"], 0)
    with pytest.raises(OSError, match="Read-only"):
        fs.unlink("/data/log")
    assert file.pread(3, 0) == b"abc"


def test_rules_without_effect_or_of_unknown_operations_are_refused() -> None:
    with pytest.raises(ValueError, match="effect"):
        FaultRule(operation="open")
    with pytest.raises(ValueError, match="no operation"):
        FaultRule(operation="opne", error=errno.EIO)
