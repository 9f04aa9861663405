from __future__ import annotations

import errno

from crabka.log.dirs.deletions import Deletions, is_disk_failure
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem


def test_paths_go_when_they_are_due() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data/gone-0.x-delete")
    fs.open("/data/gone-0.x-delete/0.log", create=True)
    fs.open("/data/1.log.deleted", create=True)
    deletions = Deletions(fs)
    deletions.schedule("/data/gone-0.x-delete", 200)
    deletions.schedule("/data/1.log.deleted", 100)
    deletions.remove(deletions.take_due(99))
    assert fs.listdir("/data") == ["1.log.deleted", "gone-0.x-delete"]
    deletions.remove(deletions.take_due(100))
    assert fs.listdir("/data") == ["gone-0.x-delete"]
    assert len(deletions) == 1
    deletions.remove(deletions.take_due(10_000))
    assert fs.listdir("/data") == []


def test_what_is_gone_already_is_no_error() -> None:
    fs = MemoryFileSystem()
    fs.open("/second", create=True)
    Deletions(fs).remove(["/first", "/second"])
    assert fs.listdir("/") == []


def test_what_cannot_be_removed_does_not_keep_the_rest() -> None:
    memory = MemoryFileSystem()
    for path in ("/first", "/second"):
        memory.open(path, create=True)
    fs = FaultyFileSystem(memory, [FaultRule(operation="unlink", path="/first", error=errno.EIO)])
    (failure,) = Deletions(fs).remove(["/first", "/second"])
    assert failure.errno == errno.EIO
    assert memory.listdir("/") == ["first"]


def test_only_some_errors_speak_of_the_disk() -> None:
    assert is_disk_failure(OSError(errno.EROFS, "read-only"))
    assert not is_disk_failure(PermissionError(errno.EACCES, "not yours"))
