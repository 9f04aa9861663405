"""Offsets by time in the tier are those that the log would have found."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.config.topic import TopicConfig
from crabka.log.partition.decompression import MAX_DECOMPRESSED_BYTES
from crabka.log.partition.timestamps import TimestampOffset
from crabka.protocol.error_codes import ErrorCode
from crabka.records.compression import ZSTD
from crabka.records.errors import CorruptBatchError
from crabka.records.header import NO_TIMESTAMP
from crabka.remote.errors import NotReadyError
from crabka.remote.segments import IndexType
from tests.support.faults.bombs import bomb
from tests.support.faults.tier_rot import flip_object
from tests.support.pending_threads import PendingThreads
from tests.support.storage.small import NOW_MS, append, make_batch
from tests.support.tiers.remote_reading import TierWorld, directory_tier, memory_tier


def search(world: TierWorld, timestamp: int, wait_ms: int = 1000) -> TimestampOffset | None:
    return world.run(world.reads.offset_for_timestamp(world.partition, timestamp, wait_ms))


@given(st.lists(st.integers(0, 50), min_size=5, max_size=30), st.data())
def test_the_answer_is_that_of_the_whole_log(times: list[int], data: st.DataObject) -> None:
    config = TopicConfig(
        internal_segment_bytes=data.draw(st.integers(600, 2000)),
        index_interval_bytes=data.draw(st.integers(0, 500)),
        remote_storage_enable=True,
        local_retention_ms=0,
    )
    with TierWorld(config, storage=data.draw(st.sampled_from([memory_tier, directory_tier]))) as world:
        for epoch, time in enumerate(times):
            append(world.log, make_batch(3, value_bytes=40, timestamp=NOW_MS + time), leader_epoch=epoch // 7)
        log = world.log
        world.tier()
        if data.draw(st.booleans()):
            log.retention.delete_records_before(data.draw(st.integers(0, log.log_end_offset // 2)))
        wanted = [NOW_MS + data.draw(st.integers(-5, 60)) for _ in range(4)]
        answers = [log.reads.offset_for_timestamp(timestamp) for timestamp in wanted]
        world.drop_local()
        for timestamp, answer in zip(wanted, answers, strict=True):
            found = search(world, timestamp) if log.log_start_offset < log.local_log_start_offset else None
            assert (found or log.reads.offset_for_timestamp(timestamp)) == answer


def test_any_wrong_byte_of_a_time_index_leads_to_the_same_answers(caplog: pytest.LogCaptureFixture) -> None:
    config = TopicConfig(
        internal_segment_bytes=3000, index_interval_bytes=200, remote_storage_enable=True, local_retention_ms=0
    )
    with TierWorld(config, storage=directory_tier) as world:
        for time in range(30):
            append(world.log, make_batch(2, value_bytes=50, timestamp=NOW_MS + 10 * time))
        segment = world.tier()[0]
        wanted = range(NOW_MS, segment.max_timestamp_ms, 25)
        answers = [world.log.reads.offset_for_timestamp(timestamp) for timestamp in wanted]
        world.drop_local()
        assert [search(world, timestamp) for timestamp in wanted] == answers
        assert not caplog.records
        for position in range(len(world.storage.fetch_index(segment, IndexType.TIMESTAMP))):
            flip_object((world.storage, world.fs), segment, position, 1 << position % 5, kind=IndexType.TIMESTAMP)
            world.tools.forget(segment.segment_id.id)
            assert [search(world, timestamp) for timestamp in wanted] == answers, position
            flip_object((world.storage, world.fs), segment, position, 1 << position % 5, kind=IndexType.TIMESTAMP)
    assert ".timeindex in the remote tier is damaged" in caplog.text


def test_a_search_by_time_goes_by_corrected_batches() -> None:
    with TierWorld(storage=directory_tier) as world:
        for time in range(20):
            append(world.log, make_batch(2, value_bytes=50, timestamp=NOW_MS + 10 * time))
        segment = world.tier()[0]
        wanted = range(NOW_MS, segment.max_timestamp_ms, 7)
        answers = [world.log.reads.offset_for_timestamp(timestamp) for timestamp in wanted]
        world.drop_local()
        for position in range(0, segment.segment_size_bytes, 13):
            flip_object((world.storage, world.fs), segment, position)
            assert [search(world, timestamp) for timestamp in wanted] == answers, position
            flip_object((world.storage, world.fs), segment, position)
            world.tools.forget(segment.segment_id.id)


def test_a_segment_whose_largest_timestamp_is_not_known_is_looked_into() -> None:
    with TierWorld() as world:
        for time in range(20):
            append(world.log, make_batch(3, value_bytes=100, timestamp=NOW_MS + 10 * time))
        tier = world.rlmm.add_remote_log_segment_metadata
        world.rlmm.add_remote_log_segment_metadata = lambda segment: tier(  # type: ignore[method-assign,assignment]
            dataclasses.replace(segment, max_timestamp_ms=NO_TIMESTAMP)
        )
        world.tier()
        world.drop_local()
        assert search(world, NOW_MS + 55) == TimestampOffset(NOW_MS + 60, 18, 0)


def test_records_of_another_history_are_passed_over() -> None:
    with TierWorld() as world:
        append(world.log, make_batch(3, timestamp=NOW_MS))
        append(world.log, make_batch(3, timestamp=NOW_MS + 100), leader_epoch=1)
        world.log.roll(NOW_MS)
        append(world.log, make_batch(1))
        world.tier()
        # Epoch 1 was cut off; what follows was written in epoch 2.
        world.log.truncation.truncate_to(3)
        append(world.log, make_batch(3, timestamp=NOW_MS + 200), leader_epoch=2)
        world.log.roll(NOW_MS)
        append(world.log, make_batch(1), leader_epoch=2)
        world.log.tiering.note_remote_offset(2)
        world.tier()
        world.drop_local()
        assert search(world, NOW_MS + 50) == TimestampOffset(NOW_MS + 200, 3, 2)


def test_nothing_later_is_nothing() -> None:
    with TierWorld() as world:
        append(world.log, make_batch(3, timestamp=NOW_MS))
        world.log.roll(NOW_MS)
        append(world.log, make_batch(1))
        world.tier()
        world.drop_local()
        assert search(world, NOW_MS + 3) is None


def test_metadata_that_is_not_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with TierWorld() as world:
        append(world.log, make_batch(3))

        def refuse(*_: object) -> None:
            raise NotReadyError("not loaded yet")

        monkeypatch.setattr(world.rlmm, "list_remote_log_segments", refuse)
        with pytest.raises(NotReadyError):
            search(world, NOW_MS)


def test_a_search_waits_for_memory_as_other_requests_do() -> None:
    with TierWorld() as world:
        for time in range(20):
            append(world.log, make_batch(3, value_bytes=100, timestamp=NOW_MS + 10 * time))
        world.tier()
        world.drop_local()
        budget, threads = world.log.decompression, PendingThreads()

        async def hold() -> None:
            budget.submit(threads, MAX_DECOMPRESSED_BYTES, int)

        async def release() -> None:
            threads.running[0].set_result(None)

        world.run(hold())
        with pytest.raises(RemoteWaitOverError):
            search(world, NOW_MS + 55)
        world.run(release())
        assert search(world, NOW_MS + 55) == TimestampOffset(NOW_MS + 60, 18, 0)
        assert budget.used_bytes == 0


def test_a_bomb_in_the_tier_is_refused() -> None:
    config = TopicConfig(internal_segment_bytes=4000, remote_storage_enable=True, local_retention_ms=0)
    with TierWorld(config) as world:
        append(world.log, bomb(ZSTD, MAX_DECOMPRESSED_BYTES + 1))
        for _ in range(40):
            append(world.log, make_batch(3, value_bytes=100, timestamp=NOW_MS))
        world.tier()
        world.drop_local()
        with pytest.raises(CorruptBatchError) as caught:
            search(world, 0)
        assert caught.value.error_code is ErrorCode.message_too_large
        assert world.log.decompression.used_bytes == 0
