from __future__ import annotations

import mmap
import os
import sys
from typing import TYPE_CHECKING

import pytest

from crabka.vfs import page_cache
from crabka.vfs.page_cache import begin_writeback, is_cached

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = mmap.PAGESIZE


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """A file of 20 synced pages and a bit."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * (20 * PAGE + 100))
    os.fsync(fd)
    yield fd
    os.close(fd)


def forget(fd: int, position: int, length: int) -> None:
    """Ask the kernel to drop pages; it does so for clean ones."""
    if sys.platform == "linux":
        os.posix_fadvise(fd, position, length, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def reporting(descriptor: int) -> int:
    """The file, where the kernel reports what it caches and drops pages on request."""
    if not is_cached(descriptor, PAGE, 0):
        pytest.skip("the kernel has no cachestat")
    forget(descriptor, 0, 0)
    if is_cached(descriptor, PAGE, 0):
        pytest.skip("the file lives in memory")
    os.pread(descriptor, 20 * PAGE + 100, 0)
    return descriptor


def test_written_and_read_pages_are_cached(reporting: int) -> None:
    for length, position in [(1, 0), (PAGE, 0), (20 * PAGE + 100, 0), (PAGE, 5), (2, PAGE - 1), (100, 20 * PAGE)]:
        assert is_cached(reporting, length, position)


def test_a_range_with_a_forgotten_page_is_not_cached(reporting: int) -> None:
    forget(reporting, 0, 0)
    os.posix_fadvise(reporting, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
    os.pread(reporting, 1, 3 * PAGE)
    assert is_cached(reporting, PAGE, 3 * PAGE)
    assert not is_cached(reporting, PAGE + 1, 3 * PAGE)
    assert not is_cached(reporting, 2, 3 * PAGE - 1)


def test_pages_after_the_end_and_empty_ranges_are_not_cached(descriptor: int) -> None:
    assert not is_cached(descriptor, 30 * PAGE, 0)
    assert not is_cached(descriptor, 0, 0)


def test_nothing_is_known_where_the_call_is_missing_or_forbidden(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "_syscall", lambda *_arguments: -1)
    assert not is_cached(descriptor, PAGE, 0)
    monkeypatch.setattr(page_cache, "_syscall", None)
    assert not is_cached(descriptor, PAGE, 0)


def test_writing_begins_for_the_range_that_is_named(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(page_cache, "_sync_file_range", lambda *arguments: asked.append(arguments))
    begin_writeback(descriptor, 2 * PAGE, 5)
    begin_writeback(descriptor, 0, 5)
    assert asked == [(descriptor, 5, 2 * PAGE, 2)]
    monkeypatch.setattr(page_cache, "_sync_file_range", None)
    begin_writeback(descriptor, 2 * PAGE, 5)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux reports dirty pages")
def test_the_kernel_takes_the_range(descriptor: int) -> None:
    os.pwrite(descriptor, b"y" * PAGE, 0)
    assert page_cache._sync_file_range is None or page_cache._sync_file_range(descriptor, 0, PAGE, 2) == 0
