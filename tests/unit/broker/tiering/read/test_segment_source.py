"""Bytes of a segment for one reader: from chunks, or from a file of a tier on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from crabka.broker.tiering.read.deadline import Deadline
from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.broker.tiering.read.segment_source import ChunkSource, FileSource
from crabka.log.partition.reader import MIN_RANGE_BYTES
from crabka.log.segment.caches import Handle
from crabka.ports import FileRange
from crabka.remote.errors import RemoteBackendError
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem, VirtualTimeLoop
from crabka.testing.remote_samples import sample_segment
from tests.support.async_tests import run_with
from tests.support.tiers.chunk_world import CONTENT, SEGMENT, ChunkWorld

LARGE = bytes(range(256)) * 1024


def run(test: Callable[[ChunkWorld], Awaitable[None]], capacity_bytes: int = 1000) -> None:
    async def main() -> None:
        await test(ChunkWorld(capacity_bytes))

    VirtualTimeLoop().run(main())


@run_with(run)
async def test_chunks_are_seen_once_they_are_loaded(world: ChunkWorld, /) -> None:
    source = ChunkSource(world.cache, SEGMENT)
    assert source.peek(10, 95) is None
    assert await source.load(10, 95, Deadline(100)) == 0
    world.threads.release()
    assert await source.load(10, 95, Deadline(100)) == 10
    assert source.peek(10, 95) == CONTENT[95:105]
    assert [bytes(part) for part in source.payloads(10, 95)] == [CONTENT[95:100], CONTENT[100:105]]  # type: ignore[arg-type]
    assert source.peek(10, 200) is None


@run_with(run)
async def test_the_end_of_the_segment_is_the_end_of_a_read(world: ChunkWorld, /) -> None:
    source = ChunkSource(world.cache, SEGMENT)
    await source.load(1000, 240, Deadline(0))
    world.threads.release()
    assert await source.load(1000, 240, Deadline(0)) == 10
    assert source.peek(1000, 240) == CONTENT[240:]
    assert await source.load(1, 250, Deadline(0)) == 0


@run_with(run)
async def test_views_of_chunks_are_not_copied(world: ChunkWorld, /) -> None:
    source = ChunkSource(world.cache, SEGMENT)
    future = world.cache.get(SEGMENT, 0)
    world.threads.release()
    await source.load(50, 10, Deadline(0))
    (part,) = source.payloads(50, 10)
    assert isinstance(part, memoryview)
    assert part.obj is (await future).obj


@run_with(run)
async def test_what_is_late_or_fails_cuts_the_read_short(world: ChunkWorld, /) -> None:
    source = ChunkSource(world.cache, SEGMENT)
    assert await source.load(250, 0, Deadline(10)) == 0
    world.threads.release(1)
    assert await source.load(250, 0, Deadline(10)) == 100
    world.storage.failure = RemoteBackendError("away")
    world.threads.release()
    assert await source.load(250, 0, Deadline(10)) == 100


@run_with(run)
async def test_a_failure_before_the_first_byte_is_reported(world: ChunkWorld, /) -> None:
    source = ChunkSource(world.cache, SEGMENT)
    world.storage.failure = RemoteBackendError("away")
    world.cache.get(SEGMENT, 1)
    world.threads.release()
    with pytest.raises(RemoteBackendError):
        await source.load(10, 150, Deadline(0))


@run_with(run, capacity_bytes=200)
async def test_a_read_larger_than_the_cache_takes_what_there_is_room_for(world: ChunkWorld, /) -> None:
    source = ChunkSource(world.cache, SEGMENT)
    await source.load(250, 0, Deadline(0))
    assert len(world.threads.waiting) == 2
    with pytest.raises(ReaderBusyError):
        await ChunkSource(world.cache, sample_segment(9, (0, 1), size_bytes=100)).load(10, 0, Deadline(0))
    world.threads.release()
    assert await source.load(250, 0, Deadline(0)) == 200


def file_source(fs: MemoryFileSystem | FaultyFileSystem, world: ChunkWorld, content: bytes = LARGE) -> FileSource:
    file = fs.open("/segment", create=True)
    file.pwritev([content], 0)
    return FileSource(Handle(file), world.pool, sample_segment(1, (0, 9), size_bytes=len(LARGE)))


@run_with(run)
async def test_much_of_a_file_in_memory_is_sent_from_it(world: ChunkWorld, /) -> None:
    source = file_source(MemoryFileSystem(), world)
    assert await source.load(MIN_RANGE_BYTES, 7, Deadline(0)) == MIN_RANGE_BYTES
    (part,) = source.payloads(MIN_RANGE_BYTES, 7)
    if isinstance(part, FileRange):
        part = part.read()
    assert part == LARGE[7 : 7 + MIN_RANGE_BYTES]
    assert source.peek(4, 7) == LARGE[7:11]
    assert source.payloads(4, 7) == [LARGE[7:11]]


@run_with(run)
async def test_a_cold_file_is_read_in_a_thread(world: ChunkWorld, /) -> None:
    source = file_source(FaultyFileSystem(MemoryFileSystem(), [FaultRule(would_block=True)]), world)
    assert source.peek(10, 5) is None
    assert await source.load(10, 5, Deadline(0)) == 0
    loading = asyncio.get_running_loop().create_task(source.load(10, 5, Deadline(100)))
    await asyncio.sleep(0)
    world.threads.release()
    assert await loading == 10
    assert source.peek(10, 5) == LARGE[5:15]
    assert source.payloads(4, 6) == [LARGE[6:10]]


@run_with(run)
async def test_a_file_that_is_too_short_is_an_error(world: ChunkWorld, /) -> None:
    source = file_source(MemoryFileSystem(), world, LARGE[:100])
    with pytest.raises(RemoteBackendError, match="ends before 110"):
        await source.load(20, 90, Deadline(0))
