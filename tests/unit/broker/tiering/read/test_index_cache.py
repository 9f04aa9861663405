"""Indexes in memory and on disk: fetched once, bounded, gone when unused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from crabka.broker.tiering.read import index_cache
from crabka.broker.tiering.read.deadline import Deadline
from crabka.broker.tiering.read.index_cache import IndexCacheLimits, RemoteIndexCache
from crabka.broker.tiering.read.index_files import IndexFiles
from crabka.broker.tiering.read.pool import ReaderPool
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from crabka.testing.remote_samples import sample_segment
from tests.support.async_tests import run_with
from tests.support.tiers.index_storage import PATH, SEGMENT, IndexStorage, offsets


class CacheWorld:
    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.fs = MemoryFileSystem()
        self.fs.makedirs("/d1")
        self.storage = IndexStorage()
        self.threads = InlineThreads(loop)
        self.clock = SimulatedClock(loop)
        self.limits = IndexCacheLimits(1000, 60_000)
        self.cache = self.make()

    def make(self) -> RemoteIndexCache:
        pool = ReaderPool(lambda _size: self.threads, size=lambda: 2, max_pending=10)
        return RemoteIndexCache(IndexFiles(self.fs, "/d1", self.storage), pool, self.clock, lambda: self.limits)

    async def offsets(self, number: int = 1) -> list[tuple[int, int]]:
        segment = sample_segment(number, (100, 199), size_bytes=5000)
        return (await self.cache.offsets(segment, Deadline(1000))).entries()


def run(test: Callable[[CacheWorld], Awaitable[None]]) -> None:
    loop = VirtualTimeLoop()

    async def main() -> None:
        world = CacheWorld(loop)
        await world.cache.open()
        await test(world)
        await asyncio.sleep(0.01)

    loop.run(main())


@run_with(run)
async def test_an_index_is_fetched_once_for_all_who_want_it(world: CacheWorld, /) -> None:
    found = await asyncio.gather(*(world.offsets() for _ in range(3)))
    assert found == [offsets().entries()] * 3
    assert await world.offsets() == offsets().entries()
    assert (len(world.storage.asked), world.cache.disk_bytes) == (1, 16)


@run_with(run)
async def test_kinds_have_their_own_type(world: CacheWorld, /) -> None:
    assert len(await world.cache.times(SEGMENT, Deadline(100))) == 0
    assert await world.cache.aborted(SEGMENT, Deadline(100)) == []
    assert world.storage.asked == [IndexType.TIMESTAMP, IndexType.TRANSACTION]


@run_with(run)
async def test_after_a_restart_the_disk_serves(world: CacheWorld, /) -> None:
    await world.offsets()
    world.cache = world.make()
    await world.cache.open()
    assert world.cache.disk_bytes == 16
    assert await world.offsets() == offsets().entries()
    assert len(world.storage.asked) == 1


@run_with(run)
async def test_a_failed_fetch_is_tried_again(world: CacheWorld, /) -> None:
    content, world.storage.content = world.storage.content, {IndexType.TRANSACTION: b"abc"}
    with pytest.raises(RemoteBackendError):
        await world.cache.aborted(SEGMENT, Deadline(100))
    world.storage.content = content
    assert await world.cache.aborted(SEGMENT, Deadline(100)) == []


@run_with(run)
async def test_the_disk_holds_no_more_than_the_limit(world: CacheWorld, /) -> None:
    world.limits = IndexCacheLimits(40, 60_000)
    for number in (1, 2, 1, 3):
        await world.offsets(number)
        await asyncio.sleep(0.01)
    assert world.cache.disk_bytes == 32
    # The one that was used least recently went.
    assert [name[-7] for name in world.fs.listdir(PATH)] == ["Q", "w"]
    await world.offsets(2)
    assert len(world.storage.asked) == 4


@run_with(run)
async def test_entries_that_are_long_unused_are_dropped(world: CacheWorld, /) -> None:
    await world.offsets(1)
    await world.offsets(2)
    await asyncio.sleep(40)
    await world.offsets(2)
    await asyncio.sleep(40)
    world.cache.expire()
    await asyncio.sleep(0.01)
    assert len(world.fs.listdir(PATH)) == 1
    world.limits = IndexCacheLimits(1000, -1)
    await asyncio.sleep(1000)
    world.cache.expire()
    assert world.cache.disk_bytes == 16


@run_with(run)
async def test_a_deleted_segment_is_forgotten(world: CacheWorld, /) -> None:
    await world.offsets(1)
    world.cache.forget(SEGMENT.segment_id.id)
    await asyncio.sleep(0.01)
    assert (world.cache.disk_bytes, world.fs.listdir(PATH)) == (0, [])
    await world.offsets(1)
    assert len(world.storage.asked) == 2


@run_with(run)
async def test_memory_is_bounded(world: CacheWorld, /, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cache, "MEMORY_BYTES", 3000)

    for number in range(1, 6):
        await world.offsets(number)
    await asyncio.sleep(0.01)
    assert len(world.cache._in_memory) <= 3
