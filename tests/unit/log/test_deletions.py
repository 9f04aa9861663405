from __future__ import annotations

from crabka.log.deletions import Deletions
from crabka.testing import MemoryFileSystem


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
