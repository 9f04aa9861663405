"""Fetches from the tier: filled across segments, capped, in time, shared, counted, never out of range by mistake."""

from __future__ import annotations

import asyncio
import logging

import pytest

from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.broker.tiering.read.reader import RemoteRecords, UnknownOffsetError
from crabka.broker.tiering.stats import (
    BUILD_AUX_STATE_ERRORS,
    BUILD_AUX_STATE_REQUESTS,
    REMOTE_FETCH_BYTES,
    REMOTE_FETCH_ERRORS,
    REMOTE_FETCH_EXPIRES,
    REMOTE_FETCH_REQUESTS,
)
from crabka.config.topic import TopicConfig
from crabka.ports import FileRange, FileSystem
from crabka.protocol.hot import RecordParts
from crabka.records.header import iter_headers
from crabka.remote.errors import NotReadyError, RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import RemoteLogSegmentState
from crabka.testing.faulty_storage import FaultyStorageManager, StorageFault
from crabka.testing.memory_storage import InmemoryRemoteStorage
from crabka.testing.remote_samples import sample_update
from tests.support.storage.small import append, make_batch
from tests.support.tiers.aborted import Transactions
from tests.support.tiers.filled import filled, segments_of
from tests.support.tiers.remote_reading import HeldThreads, TierWorld, directory_tier, joined


def faulty(fs: FileSystem) -> FaultyStorageManager:
    return FaultyStorageManager(InmemoryRemoteStorage(fs))


def test_a_fetch_is_filled_across_segments() -> None:
    with TierWorld() as world:
        everything = filled(world)
        assert world.fetch_bytes(0) == everything
        some = world.fetch_bytes(0, max_bytes=5000)
        assert everything.startswith(some)
        batch_bytes = len(make_batch(3, value_bytes=100))
        assert 5000 - batch_bytes < len(some) <= 5000


def test_at_least_one_whole_batch_comes_however_small_the_limit() -> None:
    with TierWorld() as world:
        everything = filled(world)
        batch_bytes = len(make_batch(3, value_bytes=100))
        assert world.fetch_bytes(1, max_bytes=1) == everything[:batch_bytes]
        assert world.fetch_bytes(1, max_bytes=1, min_one_batch=False) == b""


def test_what_is_above_the_high_watermark_or_the_last_stable_offset_stays_out() -> None:
    with TierWorld() as world:
        everything = filled(world)
        batch_bytes = len(make_batch(3, value_bytes=100))
        assert world.fetch_bytes(0, upper_offset=21) == everything[: 7 * batch_bytes]


def test_aborted_transactions_of_other_segments_are_reported() -> None:
    with TierWorld() as world:
        txn = Transactions(world)
        txn.write(7)
        txn.roll()
        append(world.log, make_batch(5))
        txn.roll()
        txn.abort(7)
        txn.roll()
        append(world.log, make_batch(1))
        world.tier()
        world.drop_local()
        assert world.fetch(0, is_committed_only=True, max_bytes=1).aborted == [(7, 0)]
        assert world.fetch(0, is_committed_only=False).aborted is None
        assert world.fetch(0, is_committed_only=True, max_bytes=0, min_one_batch=False).aborted == []


def test_a_slow_store_costs_one_wait_and_its_answer_serves_the_next_fetch() -> None:
    with TierWorld(threads=lambda _loop: HeldThreads()) as world:
        everything = filled(world)
        threads = world.threads
        assert isinstance(threads, HeldThreads)

        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert len((await world.reads.fetch(world.wanted(0), 500)).records) == 0
            assert loop.time() == pytest.approx(0.5)
            # Index and chunks are asked for one after the other, by fetches that do not wait.
            found = b""
            while not found:
                assert threads.release() > 0
                await asyncio.sleep(0)
                found = joined((await world.reads.fetch(world.wanted(0, max_bytes=1000), 0)).records)
            assert everything.startswith(found)

        world.run(main())
        assert world.stats.counter(REMOTE_FETCH_EXPIRES) >= 2


def test_readers_of_the_same_records_share_downloads() -> None:
    with TierWorld(storage=faulty) as world:
        everything = filled(world)
        assert isinstance(world.storage, FaultyStorageManager)

        async def main() -> list[RemoteRecords]:
            return await asyncio.gather(*(world.reads.fetch(world.wanted(0), 500) for _ in range(5)))

        assert [joined(found.records) for found in world.run(main())] == [everything] * 5
        fetches = [call for call in world.storage.calls if call[0] == "fetch_log_segment"]
        ranges = sum(-(-each.segment_size_bytes // 1024) for each in segments_of(world))
        assert len(fetches) == ranges


def test_a_reader_in_order_finds_its_chunks_read_ahead() -> None:
    with TierWorld(storage=faulty, cache_bytes=1 << 20) as world:
        filled(world, 60)
        assert isinstance(world.storage, FaultyStorageManager)
        offset, asked = 0, []

        async def wait() -> None:
            await asyncio.sleep(1)

        while offset < 120:
            before = len(world.storage.calls)
            found = world.fetch_bytes(offset, max_bytes=900)
            asked.append(len([call for call in world.storage.calls[before:] if call[0] == "fetch_log_segment"]))
            offset = [header for _, header in iter_headers(found)][-1].next_offset
            world.run(wait())
        # All but the first few find what they want in memory already; what is downloaded then is for later.
        world.storage.add(StorageFault(operation="fetch_log_segment", error=RemoteBackendError("away")))
        assert world.fetch_bytes(offset, max_bytes=900)


def test_errors_of_the_store_are_reported_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with TierWorld(storage=faulty) as world, caplog.at_level(logging.WARNING):
        everything = filled(world)
        assert isinstance(world.storage, FaultyStorageManager)
        fault = world.storage.add(StorageFault(operation="fetch_log_segment", error=RemoteBackendError("away")))
        with pytest.raises(RemoteBackendError):
            world.fetch(0)
        assert "Cannot read orders-0 from the tier: away" in caplog.text
        world.storage.remove(fault)
        assert world.fetch_bytes(0) == everything
        counted = [world.stats.counter(name, "orders") for name in (REMOTE_FETCH_REQUESTS, REMOTE_FETCH_ERRORS)]
        assert counted == [2, 1]
        assert world.stats.counter(REMOTE_FETCH_BYTES, "orders") == len(everything)


def test_an_error_behind_the_first_segment_only_ends_the_fetch() -> None:
    with TierWorld(storage=faulty) as world:
        everything = filled(world)
        assert isinstance(world.storage, FaultyStorageManager)
        second = segments_of(world)[1].segment_id
        world.storage.add(
            StorageFault(wants=lambda metadata: metadata.segment_id == second, error=RemoteBackendError("away"))
        )
        assert world.fetch_bytes(0) == everything[: segments_of(world)[0].segment_size_bytes]


def test_segments_that_vanished_are_reported_as_errors() -> None:
    with TierWorld() as world:
        filled(world)
        first = segments_of(world)[0]
        world.storage.delete_log_segment_data(first)
        with pytest.raises(SegmentNotFoundError):
            world.fetch(0)
        started = sample_update(first, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        world.rlmm.update_remote_log_segment_metadata(started)
        with pytest.raises(UnknownOffsetError) as caught:
            world.fetch(0)
        assert caught.value.retriable


def test_metadata_that_is_not_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with TierWorld() as world:
        filled(world)

        def refuse(*_: object) -> None:
            raise NotReadyError("not loaded yet")

        monkeypatch.setattr(world.rlmm, "remote_log_segment_metadata", refuse)
        with pytest.raises(NotReadyError):
            world.fetch(0)


def test_more_reads_than_may_wait_are_refused() -> None:
    with TierWorld(threads=lambda _loop: HeldThreads(), max_pending=0) as world:
        filled(world)

        async def main() -> None:
            first = segments_of(world)[:5]
            offsets = [segment.start_offset for segment in first]
            fetches = [world.reads.fetch(world.wanted(offset), 100) for offset in offsets]
            found = await asyncio.gather(*fetches, return_exceptions=True)
            assert [isinstance(each, ReaderBusyError) for each in found] == [False] * 4 + [True]
            assert world.reads.queue_size == 0
            assert world.reads.idle_share == 0

        world.run(main())


def test_the_quota_is_used_up_by_downloads_and_free_again_later() -> None:
    with TierWorld(bytes_per_second=100) as world:
        filled(world)
        assert not world.reads.is_throttled
        world.fetch(0)
        assert world.reads.is_throttled

        async def wait() -> None:
            await asyncio.sleep(12)

        world.run(wait())
        assert not world.reads.is_throttled


def test_a_tier_on_this_machine_is_sent_from_its_files() -> None:
    with TierWorld(storage=directory_tier, bytes_per_second=100) as world:
        everything = filled(world)
        found = world.fetch(0)
        assert isinstance(found.records, RecordParts)
        assert joined(found.records) == everything
        assert world.chunks.size_bytes == 0
        assert world.reads.is_throttled


def test_large_parts_of_a_local_tier_are_ranges_of_files() -> None:
    config = TopicConfig(internal_segment_bytes=200_000, remote_storage_enable=True, local_retention_ms=0)
    with TierWorld(config, storage=directory_tier) as world:
        for _ in range(30):
            append(world.log, make_batch(1, value_bytes=20_000))
        world.tier()
        world.drop_local()
        found = world.fetch(3, max_bytes=100_000)
        assert isinstance(found.records, FileRange)
        assert [header.base_offset for _, header in iter_headers(joined(found.records))] == [3, 4, 5, 6]
        # What is deleted meanwhile can still be sent.
        for segment in segments_of(world):
            world.storage.delete_log_segment_data(segment)
        assert len(joined(found.records)) == len(found.records)


def test_deleted_segments_are_forgotten() -> None:
    with TierWorld() as world:
        filled(world)
        world.fetch(0)
        world.reads.forget(segment.segment_id.id for segment in segments_of(world))
        assert (world.chunks.size_bytes, world.indexes.disk_bytes) == (0, 0)


def test_a_follower_learns_where_to_begin() -> None:
    with TierWorld() as world:
        filled(world)
        second = segments_of(world)[1]
        start = world.run(world.reads.follower_start(world.partition, 0, second.end_offset))
        assert (start.start_offset, start.epochs) == (second.end_offset + 1, [(0, 0)])
        with pytest.raises(RemoteBackendError):
            world.run(world.reads.follower_start(world.partition, 3, second.end_offset))
        counted = [world.stats.counter(name) for name in (BUILD_AUX_STATE_REQUESTS, BUILD_AUX_STATE_ERRORS)]
        assert counted == [2, 1]


def test_indexes_on_disk_are_kept_up_while_the_node_runs() -> None:
    with TierWorld() as world:
        filled(world)

        async def main() -> None:
            await world.reads.open()
            await world.reads.fetch(world.wanted(0), 500)
            await asyncio.sleep(0.1)
            assert world.indexes.disk_bytes > 0
            await asyncio.sleep(1000)
            assert world.indexes.disk_bytes == 0

        world.run(main())


def test_a_search_by_time_has_its_own_limit() -> None:
    with TierWorld(threads=lambda _loop: HeldThreads()) as world:
        filled(world)
        with pytest.raises(RemoteWaitOverError):
            world.run(world.reads.offset_for_timestamp(world.partition, 5, 100))
