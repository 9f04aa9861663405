"""Who reads in order gets more read ahead with each read, also from the next segment; who jumps gets nothing."""

from __future__ import annotations

from crabka.broker.tiering.read.read_ahead import MAX_AHEAD_CHUNKS, ReadAhead
from crabka.broker.tiering.read.remote_log import RemoteLog
from crabka.remote.segments import RemoteLogSegmentMetadata
from crabka.testing.remote_samples import sample_segment
from tests.support.async_tests import run_with, virtual_time
from tests.support.storage.remote_log import remote_log
from tests.support.tiers.chunk_world import ChunkWorld

FIRST = sample_segment(1, (0, 99), size_bytes=250)
SECOND = sample_segment(2, (100, 199), size_bytes=250)


def ahead_of(world: ChunkWorld) -> tuple[ReadAhead, list[RemoteLogSegmentMetadata]]:
    coming: list[RemoteLogSegmentMetadata] = []
    return ReadAhead(world.cache, coming.append), coming


def log_of() -> RemoteLog:
    return remote_log([(0, 0)], FIRST, SECOND)


def test_each_read_in_order_doubles_the_depth() -> None:
    ahead, _ = ahead_of(ChunkWorld())
    depths = [ahead.note(log_of(), offset, offset + 10) for offset in range(0, 70, 10)]
    assert depths == [0, 1, 2, 4, MAX_AHEAD_CHUNKS, MAX_AHEAD_CHUNKS, MAX_AHEAD_CHUNKS]


def test_a_reader_that_jumps_gets_nothing() -> None:
    ahead, _ = ahead_of(ChunkWorld())
    assert [ahead.note(log_of(), offset, offset + 10) for offset in (0, 50, 20, 90)] == [0, 0, 0, 0]


def test_readers_of_one_partition_are_distinguished() -> None:
    ahead, _ = ahead_of(ChunkWorld())
    for offset in (0, 1000):
        assert ahead.note(log_of(), offset, offset + 10) == 0
    for offset in (10, 1010):
        assert ahead.note(log_of(), offset, offset + 10) == 1


@run_with(virtual_time)
async def test_chunks_are_read_ahead_across_the_end_of_a_segment() -> None:
    world = ChunkWorld()
    ahead, coming = ahead_of(world)
    ahead.begin(log_of(), FIRST, 150, 3)
    world.threads.release()
    assert world.storage.ranges == [(200, 249), (0, 99), (100, 199)]
    assert [segment.start_offset for segment in coming] == [100]
    ahead.begin(log_of(), SECOND, 250, 3)
    assert world.threads.waiting == []


@run_with(virtual_time)
async def test_reading_ahead_stops_where_there_is_no_room() -> None:
    world = ChunkWorld(capacity_bytes=200)
    ahead, _ = ahead_of(world)
    ahead.begin(log_of(), FIRST, 1, 8)
    assert len(world.threads.waiting) == 1
