"""A log goes on in a copy of itself."""

from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError, InvariantError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.recovery.recovery import OpenOptions, open_log
from tests.support.moves.mirrors import COPY_PATH, SMALL_SEGMENTS, TARGET_DIR, Mirror
from tests.support.storage.small import (
    NOW_MS,
    TOPIC_PARTITION,
    ProducerFields,
    append,
    make_batch,
    make_context,
    read_headers,
)

FINAL = f"{TARGET_DIR}/orders-0"


def moved(count: int = 20) -> Mirror:
    mirror = Mirror()
    for number in range(count):
        append(mirror.log, make_batch(1, producer=ProducerFields(1, 0, number)), leader_epoch=number // 5)
    mirror.catch_up()
    mirror.memory.rename(COPY_PATH, FINAL)
    mirror.memory.fsync_dir(TARGET_DIR)
    mirror.log.moving.rehome(FINAL, mirror.log.moving.open_copy(FINAL))
    return mirror


def test_nothing_changes_but_the_place() -> None:
    mirror = moved()
    log = mirror.log
    assert (log.path, log.log_dir) == (FINAL, TARGET_DIR)
    assert [header.base_offset for header in read_headers(log)] == list(range(20))
    assert log.high_watermark == 20
    assert [epoch for epoch, _ in log.leader_epochs.entries] == [0, 1, 2, 3]


def test_appends_rolls_and_a_clean_stop_happen_in_the_new_place() -> None:
    mirror = moved()
    before = mirror.files("/data/orders-0")
    for number in range(20, 40):
        append(mirror.log, make_batch(1, producer=ProducerFields(1, 0, number)), leader_epoch=4)
    mirror.log.close(clean=True)
    assert mirror.files("/data/orders-0") == before
    mirror.memory.crash()
    options = OpenOptions(clean=True, now_ms=NOW_MS)
    again = open_log(make_context(mirror.memory), FINAL, TOPIC_PARTITION, SMALL_SEGMENTS, options)
    assert (again.log_end_offset, again.recovery_point) == (40, 40)
    assert again.producer_state.entries[1].batches[-1].last_offset == 39


def test_an_untouched_log_is_closed_properly_in_its_new_place() -> None:
    mirror = moved()
    assert not mirror.log.durability.is_untouched
    mirror.log.close(clean=True)
    assert f"{20:020d}.snapshot" in mirror.memory.listdir(FINAL)


def test_a_copy_of_another_length_is_not_opened() -> None:
    mirror = Mirror()
    append(mirror.log, make_batch(1))
    mirror.catch_up()
    append(mirror.log, make_batch(1))
    with pytest.raises(CorruptDataError, match="bytes, and"):
        mirror.log.moving.open_copy(COPY_PATH)


def test_small_files_hold_epochs_snapshots_and_aborted_transactions() -> None:
    mirror = Mirror()
    for number in range(20):
        append(mirror.log, make_batch(1, producer=ProducerFields(1, 0, number)))
    aborted = AbortedTransaction(1, 17, 18, 19)
    mirror.log.state.active.aborts.append(aborted)
    small = mirror.log.moving.small_files()
    assert small.active_base_offset == mirror.log.segment_base_offsets[-1]
    assert small.aborted == (aborted,)
    assert [offset for offset, _ in small.snapshots] == mirror.log.segment_base_offsets[1:]
    mirror.catch_up()
    mirror.assert_same()


def test_a_held_log_neither_rolls_nor_shrinks() -> None:
    mirror = Mirror()
    for _ in range(20):
        append(mirror.log, make_batch(1))
    log = mirror.log
    log.retention.delete_records_before(15)
    log.moving.is_held = True
    assert log.retention.delete_below_log_start(NOW_MS) == []
    assert not log.roll_if_needed(NOW_MS * 2)
    with pytest.raises(InvariantError, match="changes its dir"):
        log.roll(NOW_MS)
    log.moving.is_held = False
    assert log.retention.delete_below_log_start(NOW_MS)
