from __future__ import annotations

import errno

import pytest

from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs import read_file, write_atomic, write_synced


def test_new_content_is_durable_on_return() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    fs.fsync_dir("/")
    write_atomic(fs, "/data/checkpoint", b"new")
    fs.crash()
    assert read_file(fs, "/data/checkpoint") == b"new"
    assert fs.listdir("/data") == ["checkpoint"]


@pytest.mark.parametrize("content", [b"short", b""])
def test_a_synced_file_replaces_longer_content_and_survives_a_crash(content: bytes) -> None:
    fs = MemoryFileSystem()
    write_atomic(fs, "/index", b"what was there before")
    assert write_synced(fs, "/index", content) == len(content)
    fs.crash()
    assert read_file(fs, "/index") == content


def test_relative_path_without_directory_works() -> None:
    fs = MemoryFileSystem()
    write_atomic(fs, "checkpoint", memoryview(b"new"))
    fs.crash()
    assert read_file(fs, "checkpoint") == b"new"


@pytest.mark.parametrize("operation", ["open", "truncate", "pwritev", "fsync", "rename"])
def test_old_content_stands_when_a_step_fails(operation: str) -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    write_atomic(fs, "/checkpoint", b"old")
    rule = fs.add(FaultRule(operation=operation, error=errno.EIO, times=1))
    with pytest.raises(OSError, match="Input/output error"):
        write_atomic(fs, "/checkpoint", b"new")
    assert rule.fired_count == 1
    assert read_file(fs, "/checkpoint") == b"old"
    write_atomic(fs, "/checkpoint", b"newer")
    assert read_file(fs, "/checkpoint") == b"newer"
