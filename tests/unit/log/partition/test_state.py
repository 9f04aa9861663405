from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import InvariantError, StorageError
from crabka.ids import TopicPartition
from crabka.log.partition.append import PendingAppend
from crabka.testing import MemoryFileSystem
from tests.support.storage.small import (
    LOG_DIR,
    LOG_PATH,
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
)
from tests.support.storage.tiered import drop_tiered, filled_log, tiered_config


def test_a_new_log_is_empty() -> None:
    log = open_test_log()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset) == (0, 0, 0, 0)
    assert (log.topic_partition, log.log_dir, log.size_bytes) == (TopicPartition("orders", 0), LOG_DIR, 0)


def test_the_high_watermark_stays_within_the_log() -> None:
    log = open_test_log()
    append(log, make_batch(10))
    log.retention.delete_records_before(4)
    log.set_high_watermark(99)
    assert log.high_watermark == 10
    log.set_high_watermark(1)
    assert log.high_watermark == 4


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    log = open_test_log()
    append(log, make_batch(2))
    append(log, make_batch(2, producer=ProducerFields(1), transactional=True))
    append(log, make_batch(2))
    assert (log.last_stable_offset, log.high_watermark) == (2, 6)
    log.set_high_watermark(1)
    assert log.last_stable_offset == 1


def test_rolling_leaves_a_producer_snapshot_at_the_new_segment() -> None:
    context = make_context()
    log = open_test_log(context)
    append(log, make_batch(3, producer=ProducerFields(1)))
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert log.segment_base_offsets == [0, 3]
    assert context.fs.exists(f"{LOG_PATH}/{3:020d}.snapshot")


def test_a_segment_rolls_by_the_clock_after_segment_ms() -> None:
    log = open_test_log(config=TopicConfig(segment_ms=1000))
    assert not log.roll_if_needed(NOW_MS + 5000)
    append(log, make_batch(timestamp=5))
    assert not log.roll_if_needed(NOW_MS + 1000)
    assert log.roll_if_needed(NOW_MS + 1001)
    assert not log.roll_if_needed(NOW_MS + 9999)


def test_new_settings_count_at_once() -> None:
    log = open_test_log()
    assert not log.prepares_batches
    log.update_config(replace(log.config, internal_segment_bytes=200, compression_type="gzip"))
    assert log.prepares_batches
    for _ in range(3):
        append(log, make_batch(value_bytes=100))
    assert len(log.segment_base_offsets) > 1


def test_a_failing_disk_is_reported_with_its_log_dir() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    log = open_test_log(make_context(fs))
    fs.capacity_bytes = 0
    with pytest.raises(StorageError, match="orders-0") as caught:
        append(log, make_batch())
    assert caught.value.log_dir == LOG_DIR
    assert log.log_end_offset == 0


def test_the_first_segment_has_a_durable_name_before_the_second_gets_one() -> None:
    fs = MemoryFileSystem()
    log = open_test_log(make_context(fs))
    fs.fsync_dir("/")
    fs.fsync_dir(LOG_DIR)
    append(log, make_batch())
    log.roll(NOW_MS)
    fs.crash()
    assert [name for name in fs.listdir(LOG_PATH) if name.endswith(".log")] == ["00000000000000000000.log"]


def test_a_roll_by_time_waits_for_a_batch_on_its_way() -> None:
    log = open_test_log(config=TopicConfig(segment_ms=1000))
    append(log, make_batch())
    pending = log.append_as_leader(make_batch(), leader_epoch=0, now_ms=NOW_MS, deferred=True)
    assert isinstance(pending, PendingAppend)
    assert not log.roll_if_needed(NOW_MS + 5000)
    with pytest.raises(InvariantError):
        log.roll(NOW_MS + 5000)
    pending.write()
    log.finish_append(pending)
    assert log.roll_if_needed(NOW_MS + 5000)
    assert log.segment_base_offsets == [0, 2]


def test_a_flush_is_due_after_so_many_records() -> None:
    log = open_test_log(config=TopicConfig(flush_messages=5))
    append(log, make_batch(3))
    assert log.flushes_by_count
    assert not log.flush_due()
    assert not log.flush_due(1)
    assert log.flush_due(2)
    log.update_config(TopicConfig())
    assert not log.flushes_by_count
    assert not log.flush_due(1_000_000)


def test_offsets_keep_their_order_in_a_log_that_begins_in_the_tier() -> None:
    log = filled_log(tiered_config(local_retention_bytes=0))
    log.tiering.note_remote_offset(9)
    drop_tiered(log)
    for offset in (-1, 0, 3, 7):
        log.set_high_watermark(offset)
        assert log.high_watermark == log.local_log_start_offset == 8
    log.set_high_watermark(9)
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark == 9


def test_the_last_stable_offset_of_a_transaction_that_began_in_the_tier_lies_there() -> None:
    log = open_test_log(config=tiered_config(internal_segment_bytes=150, local_retention_bytes=0))
    append(log, make_batch(producer=ProducerFields(7), transactional=True))
    for _ in range(3):
        append(log, make_batch(value_bytes=60))
    log.flush()
    log.tiering.note_remote_offset(log.log_end_offset)
    drop_tiered(log)
    assert log.local_log_start_offset > 0
    assert log.last_stable_offset == 0
