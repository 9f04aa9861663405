from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import InvariantError, OperationError
from crabka.log.partition.append import PendingAppend
from crabka.log.partition.retention import count_deletable, expired_by_log_start, expired_by_size, expired_by_time
from crabka.log.segment.segment import Segment
from crabka.log.segment.segments import Segments
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import MemoryFileSystem
from tests.support.storage.small import (
    LOG_DIR,
    LOG_PATH,
    NOW_MS,
    SEGMENT_BYTES,
    TWO_PER_SEGMENT,
    ProducerFields,
    append,
    apply_retention,
    make_batch,
    make_context,
    open_test_log,
    read_headers,
    segmented_log,
)


def segments(sizes: list[int], timestamps: list[int] | None = None) -> Segments:
    """Return segments of ten offsets each."""
    context = make_context()
    found = []
    for index, size in enumerate(sizes):
        segment = Segment(context, LOG_PATH, index * 10, size)
        segment.max_timestamp = timestamps[index] if timestamps else 0
        found.append(segment)
    return Segments(found)


def test_segments_go_by_age_from_the_oldest_on() -> None:
    found = segments([100, 100, 100, 100], [10, 50, 20, 90])
    assert count_deletable(found, end=40, log_end=40, expired=expired_by_time(100, 60)) == 1
    assert count_deletable(found, end=40, log_end=40, expired=expired_by_time(111, 60)) == 3
    assert count_deletable(found, end=40, log_end=40, expired=expired_by_time(1000, 60)) == 4


def test_as_many_go_by_size_as_leave_at_least_the_limit() -> None:
    found = segments([100, 100, 100])
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_size(300, 100)) == 2
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_size(300, 101)) == 1
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_size(300, 300)) == 0


def test_segments_wholly_below_the_log_start_go() -> None:
    found = segments([100, 100, 100])
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_log_start(19)) == 1
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_log_start(20)) == 2


def test_nothing_above_the_high_watermark_goes() -> None:
    found = segments([100, 100, 100])
    assert count_deletable(found, end=19, log_end=30, expired=expired_by_log_start(30)) == 1


def test_an_empty_last_segment_stays() -> None:
    found = segments([100, 0])
    assert count_deletable(found, end=10, log_end=10, expired=lambda _segment, _bound: True) == 1


def test_size_counts_segments_that_go_for_another_reason() -> None:
    big, small = (Segment(make_context(), "/data", base, size) for base, size in ((0, 20), (10, 5)))
    expired = expired_by_size(110, 100)
    assert not expired(big, 10)
    assert not expired(small, 20)


def test_delete_records_moves_the_start_and_drops_whole_segments_later() -> None:
    log = segmented_log()
    assert log.retention.delete_records_before(5) == 5
    assert log.segment_base_offsets == [0, 2, 4, 6, 8]
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS)] == [0, 2]
    assert log.local_log_start_offset == 5
    assert log.leader_epochs.entries == [(1, 5), (2, 8)]
    assert read_headers(log, 5)[0].base_offset == 5


def test_delete_records_knows_the_high_watermark() -> None:
    log = segmented_log()
    log.set_high_watermark(6)
    for offset in (7, -2):
        with pytest.raises(OperationError) as caught:
            log.retention.delete_records_before(offset)
        assert caught.value.error_code is ErrorCode.offset_out_of_range
    assert log.retention.delete_records_before(-1) == 6
    assert log.retention.delete_records_before(3) == 6


def test_old_segments_go_by_time_and_the_active_one_too() -> None:
    log = segmented_log(replace(TWO_PER_SEGMENT, retention_ms=5000))
    apply_retention(log, NOW_MS + 9000)
    assert (log.segment_base_offsets, log.log_start_offset) == ([4, 6, 8], 4)
    apply_retention(log, NOW_MS + 100_000)
    assert (log.segment_base_offsets, log.log_start_offset, log.log_end_offset) == ([10], 10, 10)
    assert append(log, make_batch(producer=ProducerFields(1, 0, 10))) == 10


def test_segments_go_by_size() -> None:
    log = segmented_log(replace(TWO_PER_SEGMENT, retention_bytes=SEGMENT_BYTES))
    apply_retention(log, NOW_MS)
    assert log.segment_base_offsets == [8]


def test_unreplicated_segments_stay() -> None:
    log = segmented_log(replace(TWO_PER_SEGMENT, retention_bytes=0))
    log.set_high_watermark(5)
    apply_retention(log, NOW_MS)
    assert log.segment_base_offsets == [4, 6, 8]


@pytest.mark.parametrize(
    "settings", [{"cleanup_policy": frozenset({"compact"})}, {"remote_storage_enable": True}], ids=["compact", "remote"]
)
def test_compacted_and_tiered_logs_are_not_deleted_by_size(settings: dict[str, Any]) -> None:
    log = segmented_log(replace(TWO_PER_SEGMENT, retention_bytes=0, **settings))
    assert apply_retention(log, NOW_MS) == []


def test_the_log_start_can_be_saved_between_expiry_and_deletion() -> None:
    log = segmented_log(replace(TWO_PER_SEGMENT, retention_bytes=0))
    assert log.retention.expire(NOW_MS)
    assert (log.log_start_offset, log.segment_base_offsets) == (10, [0, 2, 4, 6, 8])
    assert log.durability.needs_start_checkpoint()
    assert not log.retention.expire(NOW_MS)
    assert len(log.retention.delete_below_log_start(NOW_MS)) == 5


def test_deleted_files_wait_under_another_name() -> None:
    context = make_context()
    scheduled: list[tuple[str, int]] = []
    context.schedule_deletion = lambda path, due_ms: scheduled.append((path, due_ms))
    log = open_test_log(context, TopicConfig(file_delete_delay_ms=500))
    append(log, make_batch(3))
    log.roll(NOW_MS)
    log.retention.delete_records_before(3)
    apply_retention(log, NOW_MS)
    assert (f"{LOG_PATH}/{0:020d}.log.deleted", NOW_MS + 500) in scheduled


def test_the_new_first_segment_has_a_durable_name_before_older_ones_go() -> None:
    fs = MemoryFileSystem()
    log = open_test_log(make_context(fs))
    fs.fsync_dir("/")
    fs.fsync_dir(LOG_DIR)
    for _ in range(3):
        append(log, make_batch())
        log.roll(NOW_MS)
    log.retention.delete_records_before(1)
    log.retention.delete_below_log_start(NOW_MS)
    fs.crash()
    assert "00000000000000000001.log" in fs.listdir(LOG_PATH)


def test_the_active_segment_stays_while_a_batch_is_on_its_way() -> None:
    log = segmented_log()
    append(log, make_batch(timestamp=NOW_MS), leader_epoch=2)
    log.retention.delete_records_before(11)
    pending = log.append_as_leader(make_batch(timestamp=NOW_MS), leader_epoch=2, now_ms=NOW_MS, deferred=True)
    assert isinstance(pending, PendingAppend)
    log.retention.delete_below_log_start(NOW_MS)
    assert len(log.segment_base_offsets) == 1
    assert log.retention.delete_below_log_start(NOW_MS) == []
    with pytest.raises(InvariantError):
        log.truncation.truncate_to(9)
    with pytest.raises(InvariantError):
        log.truncation.truncate_fully(9)
    pending.write()
    log.finish_append(pending)
    assert [header.base_offset for header in read_headers(log, 11)] == [11]


def test_segments_below_the_log_start_are_reported() -> None:
    log = segmented_log()
    assert not log.retention.has_segments_below_start()
    log.retention.delete_records_before(1)
    assert not log.retention.has_segments_below_start()
    log.retention.delete_records_before(2)
    assert log.retention.has_segments_below_start()
    log.retention.delete_below_log_start(NOW_MS)
    assert not log.retention.has_segments_below_start()
