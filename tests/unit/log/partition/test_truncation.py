from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crabka.log.recovery.recovery import OpenOptions
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.storage.small import (
    LOG_DIR,
    NOW_MS,
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


@pytest.mark.parametrize("offset", range(1, 10))
def test_truncating_forgets_everything_from_the_offset_on(offset: int) -> None:
    log = segmented_log()
    assert log.truncation.truncate_to(offset, now_ms=NOW_MS)
    assert log.log_end_offset == log.high_watermark == offset
    assert [header.base_offset for header in read_headers(log)] == list(range(offset))
    assert log.producer_state.entries[1].last_sequence == offset - 1
    assert log.leader_epochs.latest == (offset - 1) // 4
    assert append(log, make_batch(producer=ProducerFields(1, 0, offset))) == offset
    assert read_headers(log)[-1].base_offset == offset


def test_truncating_above_the_end_does_nothing() -> None:
    log = segmented_log()
    assert not log.truncation.truncate_to(10)
    assert log.log_end_offset == 10


def test_truncating_lowers_the_recovery_point() -> None:
    log = segmented_log()
    log.flush()
    log.truncation.truncate_to(7, now_ms=NOW_MS)
    assert log.recovery_point == 7
    plan = log.durability.begin_flush()
    assert plan is not None
    log.truncation.truncate_to(6, now_ms=NOW_MS)
    log.durability.finish_flush(plan)
    assert log.recovery_point == 6


def test_truncating_fully_starts_anew() -> None:
    log = segmented_log()
    log.truncation.truncate_fully(100, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert log.segment_base_offsets == [100]
    assert not log.producer_state.entries
    assert log.leader_epochs.entries == []
    assert append(log, make_batch()) == 100


def test_truncating_before_the_first_segment_starts_there() -> None:
    log = segmented_log(replace(TWO_PER_SEGMENT, retention_bytes=0))
    apply_retention(log, NOW_MS)
    append(log, make_batch(producer=ProducerFields(1, 0, 10)))
    assert log.truncation.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_truncating_into_the_batch_at_the_log_start_leaves_an_empty_log_there() -> None:
    log = open_test_log()
    append(log, make_batch(2))
    append(log, make_batch(6))
    log.retention.delete_records_before(4)
    assert log.truncation.truncate_to(6)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)


def test_a_truncation_beyond_the_end_takes_epochs_without_records() -> None:
    log = segmented_log()
    log.leader_epochs.assign(9, 10)
    assert not log.truncation.truncate_to(10)
    assert log.leader_epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert log.leader_epochs.dirty


def test_an_announced_truncation_lowers_the_recovery_point_whatever_a_flush_says() -> None:
    log = segmented_log()
    plan = log.durability.begin_flush()
    assert plan is not None
    log.state.recovery_point = 6
    log.truncation.announce(8)
    assert log.recovery_point == 6
    log.truncation.announce(3)
    plan.run()
    log.durability.finish_flush(plan)
    assert (log.recovery_point, log.log_end_offset) == (3, 10)


def test_a_flush_that_ends_between_an_announcement_and_the_cut_does_not_raise_the_recovery_point() -> None:
    log = segmented_log()
    plan = log.durability.begin_flush()
    assert plan is not None
    log.truncation.announce(7)
    plan.run()
    log.durability.finish_flush(plan)
    assert log.recovery_point <= 7


def test_a_flush_that_begins_after_an_announcement_stays_below_the_cut() -> None:
    log = segmented_log()
    log.truncation.announce(7)
    log.flush()
    assert log.recovery_point == 7
    log.truncation.withdraw()
    log.flush()
    assert log.recovery_point == 10


def test_a_cut_that_was_announced_is_over_when_it_is_done() -> None:
    log = segmented_log()
    log.truncation.announce(7)
    log.truncation.truncate_to(7)
    append(log, make_batch(3))
    log.flush()
    assert log.recovery_point == log.log_end_offset == 10


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
        log.truncation.announce(offset)
    recovery_point = log.durability.checkpoint_recovery_point

    def lose_power(_operation: str, _path: str) -> None:
        raise _PowerLossError

    rule = FaultRule(before=lose_power, skip=step)
    fs.add(rule)
    try:
        log.truncation.truncate_to(offset)
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
