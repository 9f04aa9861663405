"""Chunks: one download for all, bounded, never thrown away because a client went."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.remote.errors import RemoteBackendError
from crabka.testing import VirtualTimeLoop
from crabka.testing.remote_samples import sample_segment
from tests.support.async_tests import run_with
from tests.support.tiers.chunk_world import CONTENT, SEGMENT, ChunkWorld

OTHER = sample_segment(2, (10, 19), size_bytes=len(CONTENT))


def run(test: Callable[[ChunkWorld], Awaitable[None]], capacity_bytes: int = 1000) -> None:
    async def main() -> None:
        await test(ChunkWorld(capacity_bytes))

    VirtualTimeLoop().run(main())


@run_with(run)
async def test_chunks_are_aligned_and_the_last_one_is_short(world: ChunkWorld, /) -> None:
    futures = [world.cache.get(SEGMENT, number) for number in range(3)]
    world.threads.release()
    assert b"".join([await future for future in futures]) == CONTENT
    assert world.storage.ranges == [(0, 99), (100, 199), (200, 249)]
    await asyncio.sleep(0)
    assert world.downloaded == [100, 100, 50]


@run_with(run)
async def test_a_download_is_shared_by_all_who_want_it(world: ChunkWorld, /) -> None:
    first, second = world.cache.get(SEGMENT, 0), world.cache.get(SEGMENT, 0)
    assert first is second
    world.threads.release()
    await first
    assert world.cache.get(SEGMENT, 0) is first
    assert len(world.storage.ranges) == 1


@run_with(run)
async def test_a_failed_download_is_tried_again(world: ChunkWorld, /) -> None:
    world.storage.failure = RemoteBackendError("the store is away")
    future = world.cache.get(SEGMENT, 0)
    world.threads.release()
    with pytest.raises(RemoteBackendError):
        await future
    await asyncio.sleep(0)
    assert (world.cache.size_bytes, world.downloaded) == (0, [])
    world.storage.failure = None
    again = world.cache.get(SEGMENT, 0)
    world.threads.release()
    assert await again == CONTENT[:100]


@run_with(run)
async def test_an_answer_that_is_too_short_is_an_error(world: ChunkWorld, /) -> None:
    world.storage.missing_bytes = 1
    future = world.cache.get(SEGMENT, 0)
    world.threads.release()
    with pytest.raises(RemoteBackendError, match="99 bytes came instead of 100"):
        await future


@run_with(run, capacity_bytes=200)
async def test_the_least_recently_used_chunks_make_room(world: ChunkWorld, /) -> None:
    for number in (0, 1):
        world.cache.get(SEGMENT, number)
    world.threads.release()
    await asyncio.sleep(0)
    world.cache.get(SEGMENT, 0)
    world.cache.get(OTHER, 0)
    world.threads.release()
    await asyncio.sleep(0)
    assert world.cache.size_bytes == 200
    assert world.cache.get(SEGMENT, 0).done()
    assert not world.cache.get(SEGMENT, 1).done()


@run_with(run, capacity_bytes=200)
async def test_what_is_on_its_way_is_bounded_as_well(world: ChunkWorld, /) -> None:
    for number in (0, 1):
        world.cache.get(SEGMENT, number)
    with pytest.raises(ReaderBusyError):
        world.cache.get(SEGMENT, 2)
    world.threads.release()
    await asyncio.sleep(0)
    world.cache.get(SEGMENT, 2)
    assert world.cache.size_bytes <= 200


@run_with(run, capacity_bytes=10)
async def test_one_chunk_larger_than_the_cache_can_be_read(world: ChunkWorld, /) -> None:
    future = world.cache.get(SEGMENT, 0)
    world.threads.release()
    assert len(await future) == 100


@run_with(run, capacity_bytes=400)
async def test_reading_ahead_leaves_room_for_those_who_wait(world: ChunkWorld, /) -> None:
    assert world.cache.get_ahead(SEGMENT, 0)
    assert world.cache.get_ahead(SEGMENT, 0)  # it is on its way
    assert world.cache.get_ahead(SEGMENT, 1)
    assert not world.cache.get_ahead(SEGMENT, 2)
    assert len(world.threads.waiting) == 2
    assert world.cache.get(SEGMENT, 2) is not None


@run_with(run)
async def test_nothing_is_read_ahead_while_reads_wait_for_threads(world: ChunkWorld, /) -> None:
    for number in range(5):
        world.cache.get(sample_segment(number + 10, (0, 9), size_bytes=250), 0)
    assert world.pool.queue_size == 1
    assert not world.cache.get_ahead(SEGMENT, 0)


@run_with(run)
async def test_a_deleted_segment_is_forgotten(world: ChunkWorld, /) -> None:
    world.cache.get(SEGMENT, 0)
    on_its_way = world.cache.get(SEGMENT, 1)
    world.cache.get(OTHER, 0)
    world.cache.forget(SEGMENT.segment_id.id)
    world.threads.release()
    await on_its_way
    await asyncio.sleep(0)
    assert world.cache.size_bytes == 100
    assert world.cache.get(OTHER, 0).done()
