from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from crabka.ports import FileRange, Runtime
from crabka.runtime import AsyncioNetwork, SystemClock, ThreadPool
from crabka.testing import MemoryFileSystem
from crabka.vfs import OsFileSystem


def runtime(seed: int) -> Runtime:
    return Runtime(SystemClock(), random.Random(seed), ThreadPool(1), OsFileSystem(), AsyncioNetwork())


def test_uuids_are_repeatable_by_seed() -> None:
    first, second = runtime(1), runtime(1)
    uuids = [first.new_uuid() for _ in range(10)]
    assert uuids == [second.new_uuid() for _ in range(10)]
    assert len(set(uuids)) == 10
    assert runtime(2).new_uuid() not in uuids


def test_uuids_are_random_version_4() -> None:
    node = runtime(3)
    for _ in range(20):
        value = node.new_uuid()
        assert value.version == 4
        assert value.variant == "specified in RFC 4122"


def test_a_range_reads_its_bytes_or_reports_that_the_file_is_too_short() -> None:
    file = MemoryFileSystem().open("/log", create=True)
    file.pwritev([b"abcdefgh"], 0)
    part = FileRange(file, 2, 5, None)
    assert (len(part), part.read(), part.in_memory(3)) == (5, b"cdefg", True)
    file.truncate(6)
    assert not part.in_memory(3)
    with pytest.raises(EOFError, match="/log ends before 7"):
        part.read()
    file.truncate(4)
    with pytest.raises(EOFError, match="/log ends before 7"):
        part.send_to(1, 2)


def test_a_range_is_warmed_in_pieces_from_where_it_is_needed() -> None:
    reads: list[tuple[int, int]] = []

    class Recording:
        path = "/log"

        def pread(self, length: int, position: int) -> bytes:
            reads.append((length, position))
            return b""

    file: Any = Recording()
    FileRange(file, 10, 2_500_000, None).warm(100)
    assert reads == [(1 << 20, 110), (1 << 20, 110 + (1 << 20)), (2_499_900 - (2 << 20), 110 + (2 << 20))]


def test_without_a_maker_of_pools_long_work_shares_the_threads_of_the_node() -> None:
    shared = ThreadPool(1)
    node = Runtime(SystemClock(), random.Random(1), shared, OsFileSystem(), AsyncioNetwork())

    async def main() -> None:
        pool = node.new_pool(5, "uploads")
        assert await pool.submit(int, "7") == 7
        pool.close()
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(int)
        assert await shared.submit(int, "8") == 8

    asyncio.run(main())
    shared.close()


def test_a_maker_of_pools_is_asked_for_one() -> None:
    asked: list[tuple[int, str]] = []
    own = ThreadPool(1)

    def make(size: int, name: str) -> ThreadPool:
        asked.append((size, name))
        return own

    node = Runtime(SystemClock(), random.Random(1), ThreadPool(1), OsFileSystem(), AsyncioNetwork(), make_pool=make)
    assert node.new_pool(5, "uploads") is own
    assert asked == [(5, "uploads")]
