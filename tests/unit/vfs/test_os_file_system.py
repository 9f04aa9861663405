from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pytest

from crabka.vfs import OsFileSystem, os_file_system

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from crabka.ports import Buffer
    from crabka.vfs import OsFile

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="RWF_NOWAIT is Linux's")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    file = OsFileSystem().open(f"{tmp_path}/log", create=True)
    yield file
    file.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_short_writes_are_completed(file: OsFile, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    def short_pwritev(fd: int, buffers: Sequence[bytes], position: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:limit], position)

    monkeypatch.setattr(os_file_system, "_os_pwritev", short_pwritev)
    buffers: list[Buffer] = [b"abc", b"", memoryview(b"defgh"), bytearray(b"i"), b"jk"]
    assert file.pwritev(buffers, 4) == 11
    assert file.pread(100, 4) == b"abcdefghijk"


def test_error_in_the_middle_of_a_short_write_is_raised(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(fd: int, buffers: Sequence[bytes], position: int) -> int:
        if position >= 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(fd, b"".join(buffers)[:2], position)

    monkeypatch.setattr(os_file_system, "_os_pwritev", full_disk)
    with pytest.raises(OSError, match="No space"):
        file.pwritev([b"abc", b"def"], 0)
    assert file.size() == 2


def test_short_reads_are_completed(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwritev([b"abcdefgh"], 0)
    monkeypatch.setattr(
        os_file_system, "_os_pread", lambda fd, length, position: os.pread(fd, min(length, 3), position)
    )
    assert file.pread(8, 0) == b"abcdefgh"
    assert file.pread(5, 1) == b"bcdef"
    assert file.pread(100, 6) == b"gh"


def fake_preadv(monkeypatch: pytest.MonkeyPatch, outcome: int | OSError) -> list[int]:
    """Let preadv read only so many bytes or fail; return the list of its calls."""
    calls: list[int] = []

    def preadv(fd: int, buffers: Sequence[memoryview], position: int, flags: int) -> int:
        calls.append(flags)
        if isinstance(outcome, OSError):
            raise outcome
        return os.preadv(fd, [buffers[0][:outcome]], position)

    monkeypatch.setattr(os_file_system, "_os_preadv", preadv)
    return calls


@linux_only
def test_short_read_at_the_end_of_the_file_is_an_answer(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwritev([b"abcdefgh"], 0)
    assert fake_preadv(monkeypatch, 100) == []
    assert file.pread_nowait(100, 2) == b"cdefgh"
    assert file.pread_nowait(100, 8) == b""


@linux_only
def test_short_read_at_the_edge_of_the_page_cache_would_block(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwritev([b"abcdefgh"], 0)
    calls = fake_preadv(monkeypatch, 3)
    assert file.pread_nowait(8, 0) is None
    assert file.pread_nowait(3, 0) == b"abc"
    assert calls == [os.RWF_NOWAIT] * 2


@linux_only
def test_read_that_would_block_is_none_and_is_asked_again(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_preadv(monkeypatch, BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"))
    assert file.pread_nowait(8, 0) is None
    assert file.pread_nowait(8, 0) is None
    assert len(calls) == 2


@linux_only
def test_unsupported_device_is_asked_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_preadv(monkeypatch, OSError(errno.EOPNOTSUPP, "Operation not supported"))
    fs = OsFileSystem()
    first = fs.open(f"{tmp_path}/1", create=True)
    assert first.pread_nowait(8, 0) is None
    assert first.pread_nowait(8, 0) is None
    second = fs.open(f"{tmp_path}/2", create=True)
    assert second.pread_nowait(8, 0) is None
    assert len(calls) == 1
    first.close()
    second.close()


@linux_only
def test_real_errors_of_a_read_are_raised(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_preadv(monkeypatch, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match="Input/output error"):
        file.pread_nowait(8, 0)


@linux_only
def test_reads_of_all_sizes_agree_with_blocking_reads(file: OsFile) -> None:
    content = os.urandom(3 << 20)
    file.pwritev([content], 0)
    answers = 0
    for length in (1, 4096, 1 << 20, (1 << 20) + 1, 3 << 20, 4 << 20):
        data = file.pread_nowait(length, 5)
        assert data in (None, content[5 : 5 + length])
        answers += data is not None
    assert answers in (0, 6)  # all in the page cache, or a file system that does not report it


def test_descriptors_are_not_inherited(file: OsFile) -> None:
    assert not os.get_inheritable(file._fd)


def test_refused_lock_leaves_no_descriptor_open(tmp_path: Path) -> None:
    fs = OsFileSystem()
    held = fs.lock(f"{tmp_path}/.lock")
    with pytest.raises(BlockingIOError):
        fs.lock(f"{tmp_path}/.lock")
    held.close()


def test_stat_returns_the_time_of_change_in_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    assert OsFileSystem().stat(str(path)).modified_ms == 1_700_000_000_123
