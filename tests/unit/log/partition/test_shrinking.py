from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import InvariantError, OperationError
from crabka.log.partition.append import PendingAppend
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.logs import (
    LOG_DIR,
    LOG_PATH,
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
    read_headers,
)

SEGMENT_BYTES = 2 * len(make_batch(producer=ProducerFields(1)))
TWO_PER_SEGMENT = TopicConfig(internal_segment_bytes=SEGMENT_BYTES, retention_ms=-1)


def filled(config: TopicConfig = TWO_PER_SEGMENT) -> PartitionLog:
    """Return a log of ten single records of one producer, two in each segment, one second apart."""
    log = open_test_log(config=config)
    for index in range(10):
        batch = make_batch(timestamp=NOW_MS + 1000 * index, producer=ProducerFields(1, 0, index))
        append(log, batch, leader_epoch=index // 4)
    return log


def test_delete_records_moves_the_start_and_drops_whole_segments_later() -> None:
    log = filled()
    assert log.delete_records_before(5) == 5
    assert log.segment_base_offsets == [0, 2, 4, 6, 8]
    assert [segment.base_offset for segment in log.apply_retention(NOW_MS)] == [0, 2]
    assert log.local_log_start_offset == 5
    assert log.leader_epochs.entries == [(1, 5), (2, 8)]
    assert read_headers(log, 5)[0].base_offset == 5


def test_delete_records_knows_the_high_watermark() -> None:
    log = filled()
    log.set_high_watermark(6)
    for offset in (7, -2):
        with pytest.raises(OperationError) as caught:
            log.delete_records_before(offset)
        assert caught.value.error_code is ErrorCode.offset_out_of_range
    assert log.delete_records_before(-1) == 6
    assert log.delete_records_before(3) == 6


def test_old_segments_go_by_time_and_the_active_one_too() -> None:
    log = filled(replace(TWO_PER_SEGMENT, retention_ms=5000))
    log.apply_retention(NOW_MS + 9000)
    assert (log.segment_base_offsets, log.log_start_offset) == ([4, 6, 8], 4)
    log.apply_retention(NOW_MS + 100_000)
    assert (log.segment_base_offsets, log.log_start_offset, log.log_end_offset) == ([10], 10, 10)
    assert append(log, make_batch(producer=ProducerFields(1, 0, 10))) == 10


def test_segments_go_by_size() -> None:
    log = filled(replace(TWO_PER_SEGMENT, retention_bytes=SEGMENT_BYTES))
    log.apply_retention(NOW_MS)
    assert log.segment_base_offsets == [8]


def test_unreplicated_segments_stay() -> None:
    log = filled(replace(TWO_PER_SEGMENT, retention_bytes=0))
    log.set_high_watermark(5)
    log.apply_retention(NOW_MS)
    assert log.segment_base_offsets == [4, 6, 8]


@pytest.mark.parametrize(
    "settings", [{"cleanup_policy": frozenset({"compact"})}, {"remote_storage_enable": True}], ids=["compact", "remote"]
)
def test_compacted_and_tiered_logs_are_not_deleted_by_size(settings: dict[str, Any]) -> None:
    log = filled(replace(TWO_PER_SEGMENT, retention_bytes=0, **settings))
    assert log.apply_retention(NOW_MS) == []


def test_the_log_start_can_be_saved_between_expiry_and_deletion() -> None:
    log = filled(replace(TWO_PER_SEGMENT, retention_bytes=0))
    assert log.expire_by_retention(NOW_MS)
    assert (log.log_start_offset, log.segment_base_offsets) == (10, [0, 2, 4, 6, 8])
    assert log.needs_start_checkpoint()
    assert not log.expire_by_retention(NOW_MS)
    assert len(log.delete_below_log_start(NOW_MS)) == 5


@pytest.mark.parametrize("offset", range(1, 10))
def test_truncating_forgets_everything_from_the_offset_on(offset: int) -> None:
    log = filled()
    assert log.truncate_to(offset, now_ms=NOW_MS)
    assert log.log_end_offset == log.high_watermark == offset
    assert [header.base_offset for header in read_headers(log)] == list(range(offset))
    assert log.producer_state.entries[1].last_sequence == offset - 1
    assert log.leader_epochs.latest == (offset - 1) // 4
    assert append(log, make_batch(producer=ProducerFields(1, 0, offset))) == offset
    assert read_headers(log)[-1].base_offset == offset


def test_truncating_above_the_end_does_nothing() -> None:
    log = filled()
    assert not log.truncate_to(10)
    assert log.log_end_offset == 10


def test_truncating_lowers_the_recovery_point() -> None:
    log = filled()
    log.flush()
    log.truncate_to(7, now_ms=NOW_MS)
    assert log.recovery_point == 7
    plan = log.begin_flush()
    assert plan is not None
    log.truncate_to(6, now_ms=NOW_MS)
    log.finish_flush(plan)
    assert log.recovery_point == 6


def test_truncating_fully_starts_anew() -> None:
    log = filled()
    log.truncate_fully(100, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert log.segment_base_offsets == [100]
    assert not log.producer_state.entries
    assert log.leader_epochs.entries == []
    assert append(log, make_batch()) == 100


def test_truncating_before_the_first_segment_starts_there() -> None:
    log = filled(replace(TWO_PER_SEGMENT, retention_bytes=0))
    log.apply_retention(NOW_MS)
    append(log, make_batch(producer=ProducerFields(1, 0, 10)))
    assert log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_truncating_into_the_batch_at_the_log_start_leaves_an_empty_log_there() -> None:
    log = open_test_log()
    append(log, make_batch(2))
    append(log, make_batch(6))
    log.delete_records_before(4)
    assert log.truncate_to(6)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)


def test_deleted_files_wait_under_another_name() -> None:
    context = make_context()
    scheduled: list[tuple[str, int]] = []
    context.schedule_deletion = lambda path, due_ms: scheduled.append((path, due_ms))
    log = open_test_log(context, TopicConfig(file_delete_delay_ms=500))
    append(log, make_batch(3))
    log.roll(NOW_MS)
    log.delete_records_before(3)
    log.apply_retention(NOW_MS)
    assert (f"{LOG_PATH}/{0:020d}.log.deleted", NOW_MS + 500) in scheduled


def test_the_new_first_segment_has_a_durable_name_before_older_ones_go() -> None:
    fs = MemoryFileSystem()
    log = open_test_log(make_context(fs))
    fs.fsync_dir("/")
    fs.fsync_dir(LOG_DIR)
    for _ in range(3):
        append(log, make_batch())
        log.roll(NOW_MS)
    log.delete_records_before(1)
    log.delete_below_log_start(NOW_MS)
    fs.crash()
    assert "00000000000000000001.log" in fs.listdir(LOG_PATH)


def test_the_active_segment_stays_while_a_batch_is_on_its_way() -> None:
    log = filled()
    append(log, make_batch(timestamp=NOW_MS), leader_epoch=2)
    log.delete_records_before(11)
    pending = log.append_as_leader(make_batch(timestamp=NOW_MS), leader_epoch=2, now_ms=NOW_MS, deferred=True)
    assert isinstance(pending, PendingAppend)
    log.delete_below_log_start(NOW_MS)
    assert len(log.segment_base_offsets) == 1
    assert log.delete_below_log_start(NOW_MS) == []
    with pytest.raises(InvariantError):
        log.truncate_to(9)
    with pytest.raises(InvariantError):
        log.truncate_fully(9)
    pending.write()
    log.finish_append(pending)
    assert [header.base_offset for header in read_headers(log, 11)] == [11]


def test_a_truncation_beyond_the_end_takes_epochs_without_records() -> None:
    log = filled()
    log.leader_epochs.assign(9, 10)
    assert not log.truncate_to(10)
    assert log.leader_epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert log.leader_epochs.dirty


def test_an_announced_truncation_lowers_the_recovery_point_whatever_a_flush_says() -> None:
    log = filled()
    plan = log.begin_flush()
    assert plan is not None
    log.recovery_point = 6
    log.announce_truncation(8)
    assert log.recovery_point == 6
    log.announce_truncation(3)
    plan.run()
    log.finish_flush(plan)
    assert (log.recovery_point, log.log_end_offset) == (3, 10)


def test_a_flush_that_ends_between_an_announcement_and_the_cut_does_not_raise_the_recovery_point() -> None:
    log = filled()
    plan = log.begin_flush()
    assert plan is not None
    log.announce_truncation(7)
    plan.run()
    log.finish_flush(plan)
    assert log.recovery_point <= 7


def test_a_flush_that_begins_after_an_announcement_stays_below_the_cut() -> None:
    log = filled()
    log.announce_truncation(7)
    log.flush()
    assert log.recovery_point == 7
    log.withdraw_truncation()
    log.flush()
    assert log.recovery_point == 10


def test_a_cut_that_was_announced_is_over_when_it_is_done() -> None:
    log = filled()
    log.announce_truncation(7)
    log.truncate_to(7)
    append(log, make_batch(3))
    log.flush()
    assert log.recovery_point == log.log_end_offset == 10


def test_segments_below_the_log_start_are_told() -> None:
    log = filled()
    assert not log.has_segments_below_start()
    log.delete_records_before(1)
    assert not log.has_segments_below_start()
    log.delete_records_before(2)
    assert log.has_segments_below_start()
    log.delete_below_log_start(NOW_MS)
    assert not log.has_segments_below_start()


class _PowerLossError(Exception):
    """The power fails in the middle of an operation."""


def cut_with_power_loss(step: int, seed: int, *, announced: bool, offset: int = 3) -> list[int] | None:
    """Lose power before one of the steps of a truncation; return the offsets that are left, None at its end."""
    memory = MemoryFileSystem()
    memory.makedirs(LOG_DIR)
    memory.fsync_dir("/")
    fs = FaultyFileSystem(memory)
    context = make_context(fs)
    log = open_test_log(context, TWO_PER_SEGMENT)
    for index in range(10):
        append(log, make_batch(producer=ProducerFields(1, 0, index)))
    log.flush()
    if announced:
        log.announce_truncation(offset)
    recovery_point = log.checkpoint_recovery_point

    def lose_power(_operation: str, _path: str) -> None:
        raise _PowerLossError

    rule = FaultRule(before=lose_power, skip=step)
    fs.add(rule)
    try:
        log.truncate_to(offset)
    except _PowerLossError:
        fs.remove(rule)
        memory.crash(random.Random(seed))
        options = OpenOptions(clean=False, recovery_point=recovery_point, now_ms=NOW_MS)
        return [
            header.base_offset for header in read_headers(open_test_log(make_context(memory), TWO_PER_SEGMENT, options))
        ]
    return None


@pytest.mark.parametrize("announced", [True, False])
def test_a_power_loss_in_a_truncation_leaves_a_hole_unless_it_was_announced(announced: bool) -> None:
    holes = 0
    for seed in range(4):
        step = 0
        while (left := cut_with_power_loss(step, seed, announced=announced)) is not None:
            assert left[:3] == [0, 1, 2]
            holes += left != list(range(len(left)))
            step += 1
        assert step > 10
    assert (holes == 0) == announced


def test_a_power_loss_while_a_log_is_emptied_leaves_no_log_that_begins_in_the_middle() -> None:
    for seed in range(8):
        step = 0
        while (left := cut_with_power_loss(step, seed, announced=True, offset=0)) is not None:
            assert left == list(range(len(left)))
            step += 1
        assert step > 5
