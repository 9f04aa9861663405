from __future__ import annotations

import errno

import pytest

from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs import copy_by_reading
from crabka.vfs.copying import CHUNK_BYTES


def test_more_than_a_chunk_is_copied_and_the_end_of_the_source_ends_it() -> None:
    fs = MemoryFileSystem()
    content = bytes(2 * CHUNK_BYTES) + b"end"
    source, target = fs.open("/source", create=True), fs.open("/target", create=True)
    source.pwritev([content], 0)
    assert copy_by_reading(source, target, 10 * CHUNK_BYTES, 0) == len(content)
    assert target.pread(len(content) + 1, 0) == content


@pytest.mark.parametrize(("operation", "path"), [("pread", "/source"), ("pwritev", "/target")])
def test_a_disk_that_fails_is_not_hidden(operation: str, path: str) -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    source, target = fs.open("/source", create=True), fs.open("/target", create=True)
    source.pwritev([b"content"], 0)
    fs.add(FaultRule(operation=operation, path=path, error=errno.EIO))
    with pytest.raises(OSError, match=path):
        copy_by_reading(source, target, 7, 0)
