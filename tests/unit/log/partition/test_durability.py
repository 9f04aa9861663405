from __future__ import annotations

import uuid

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import InvariantError
from crabka.log.recovery.recovery import OpenOptions
from crabka.testing import FaultyFileSystem, MemoryFileSystem, disk_failure
from crabka.vfs import read_file
from tests.support.storage.small import (
    LOG_DIR,
    LOG_PATH,
    NOW_MS,
    ProducerFields,
    append,
    apply_retention,
    make_batch,
    make_context,
    open_test_log,
    read_headers,
)

SMALL = TopicConfig(internal_segment_bytes=400, index_interval_bytes=100)


def disk() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    fs.fsync_dir("/")
    return fs


def test_what_was_flushed_survives_a_crash() -> None:
    fs = disk()
    log = open_test_log(make_context(fs), SMALL, OpenOptions(clean=True, topic_id=uuid.UUID(int=7)))
    for index in range(10):
        append(log, make_batch(2, producer=ProducerFields(1, 0, 2 * index)), leader_epoch=index // 5)
    log.flush()
    assert log.recovery_point == 20
    append(log, make_batch(2, value_bytes=100))
    point = log.durability.checkpoint_recovery_point
    fs.crash()
    found = open_test_log(make_context(fs), SMALL, OpenOptions(recovery_point=point, now_ms=NOW_MS))
    assert found.log_end_offset == 20
    assert found.topic_id == uuid.UUID(int=7)
    assert found.leader_epochs.entries == [(0, 0), (1, 10)]
    assert found.producer_state.entries[1].last_sequence == 19


def test_nothing_to_flush_is_reported() -> None:
    log = open_test_log()
    append(log, make_batch())
    log.flush()
    assert log.durability.begin_flush() is None
    append(log, make_batch())
    log.flush(up_to=1)
    assert log.recovery_point == 1
    log.flush(up_to=2)
    assert log.recovery_point == 2


def test_a_plan_covers_what_was_there_when_it_was_made() -> None:
    log = open_test_log()
    append(log, make_batch(3))
    plan = log.durability.begin_flush()
    assert plan is not None
    append(log, make_batch(3))
    plan.run()
    log.durability.finish_flush(plan, NOW_MS + 5)
    assert (log.recovery_point, log.durability.last_flush_ms) == (3, NOW_MS + 5)


def test_a_log_has_one_flush_at_a_time() -> None:
    log = open_test_log()
    append(log, make_batch(3))
    plan = log.durability.begin_flush()
    assert plan is not None
    with pytest.raises(InvariantError):
        log.durability.begin_flush()
    log.durability.fail_flush(plan)
    assert log.durability.begin_flush() is not None


def test_nothing_counts_as_durable_before_a_plan_is_finished() -> None:
    fs = disk()
    log = open_test_log(make_context(fs))
    append(log, make_batch(3), leader_epoch=4)
    plan = log.durability.begin_flush()
    assert plan is not None
    assert log.leader_epochs.dirty
    assert plan.names
    log.durability.fail_flush(plan)
    later = log.durability.begin_flush()
    assert later is not None
    assert (later.epochs, later.names) == (plan.epochs, True)


def test_what_changes_during_a_flush_is_left_for_the_next() -> None:
    log = open_test_log()
    append(log, make_batch(3), leader_epoch=4)
    plan = log.durability.begin_flush()
    assert plan is not None
    plan.run()
    append(log, make_batch(3), leader_epoch=5)
    log.roll(NOW_MS)
    log.durability.finish_flush(plan)
    assert log.leader_epochs.dirty
    later = log.durability.begin_flush()
    assert later is not None
    assert later.names
    assert later.epochs is not None


def test_an_inline_flush_ends_the_one_that_waits_for_a_thread() -> None:
    fs = disk()
    log = open_test_log(make_context(fs))
    append(log, make_batch(3), leader_epoch=4)
    waiting = log.durability.begin_flush()
    assert waiting is not None
    append(log, make_batch(3), leader_epoch=5)
    log.flush()
    assert log.recovery_point == 6
    # The thread comes late. It must not write the epochs that it was given.
    waiting.run()
    log.durability.finish_flush(waiting)
    assert read_file(fs, f"{LOG_PATH}/leader-epoch-checkpoint").split(b"\n")[2:4] == [b"4 0", b"5 3"]
    assert not log.leader_epochs.dirty


def test_a_flush_of_a_deleted_log_writes_nothing_into_the_next_of_its_name() -> None:
    fs = disk()
    log = open_test_log(make_context(fs))
    append(log, make_batch(3), leader_epoch=4)
    waiting = log.durability.begin_flush()
    assert waiting is not None
    log.moving.delete(uuid.UUID(int=15), NOW_MS)
    assert not log.is_open
    successor = open_test_log(make_context(fs))
    waiting.run()
    log.durability.finish_flush(waiting)
    assert "leader-epoch-checkpoint" not in fs.listdir(LOG_PATH)
    assert successor.leader_epochs.entries == []


def test_the_written_recovery_point_stays_below_indexes_that_are_not_durable() -> None:
    log = open_test_log()
    append(log, make_batch(3))
    log.flush()
    assert (log.recovery_point, log.durability.checkpoint_recovery_point) == (3, 0)
    log.roll(NOW_MS)
    append(log, make_batch(3))
    assert log.durability.checkpoint_recovery_point == 0
    log.flush()
    assert (log.recovery_point, log.durability.checkpoint_recovery_point) == (6, 3)


def test_a_segment_sealed_where_the_log_was_durable_is_flushed_for_its_indexes() -> None:
    log = open_test_log()
    append(log, make_batch(3))
    log.flush()
    assert not log.durability.has_unflushed_segments()
    log.roll(NOW_MS)
    assert log.durability.has_unflushed_segments()
    plan = log.durability.begin_flush()
    assert plan is not None
    plan.run()
    log.durability.finish_flush(plan)
    assert not log.durability.has_unflushed_segments()
    assert log.durability.begin_flush() is None
    assert log.durability.checkpoint_recovery_point == 3


def test_a_clean_close_leaves_kafkas_files() -> None:
    fs = disk()
    log = open_test_log(make_context(fs), SMALL)
    for index in range(4):
        append(log, make_batch(2, value_bytes=60, producer=ProducerFields(1, 0, 2 * index)))
    log.close(clean=True)
    fs.crash()
    bases = [f"{offset:020d}" for offset in log.segment_base_offsets]
    wanted = {f"{base}.{suffix}" for base in bases for suffix in ("log", "index", "timeindex")}
    wanted |= {f"{base}.snapshot" for base in bases[1:]} | {f"{8:020d}.snapshot", "leader-epoch-checkpoint"}
    assert set(fs.listdir(LOG_PATH)) == wanted
    found = open_test_log(make_context(fs), SMALL, OpenOptions(clean=True, now_ms=NOW_MS))
    assert (found.log_end_offset, found.recovery_point) == (8, 8)
    assert len(read_headers(found)) == 4


def test_an_unclean_close_writes_nothing() -> None:
    fs = disk()
    log = open_test_log(make_context(fs))
    append(log, make_batch())
    before = fs.listdir(LOG_PATH)
    log.close(clean=False)
    assert fs.listdir(LOG_PATH) == before


def test_a_deleted_log_is_renamed_durably_and_scheduled() -> None:
    fs = disk()
    context = make_context(fs)
    scheduled: list[tuple[str, int]] = []
    context.schedule_deletion = lambda path, due_ms: scheduled.append((path, due_ms))
    log = open_test_log(context, TopicConfig(file_delete_delay_ms=100))
    append(log, make_batch())
    log.flush()
    path = log.moving.delete(uuid.UUID(int=15), NOW_MS)
    assert path == f"{LOG_DIR}/orders-0.{15:032x}-delete"
    assert scheduled == [(path, NOW_MS + 100)]
    fs.crash()
    assert fs.listdir(LOG_DIR) == [f"orders-0.{15:032x}-delete"]


def test_a_renamed_log_works_on() -> None:
    log = open_test_log(config=SMALL)
    for _ in range(6):
        append(log, make_batch(2, value_bytes=60))
    log.moving.rename_directory("orders-1")
    append(log, make_batch(2, value_bytes=60))
    assert len(read_headers(log)) == 7
    log.roll(NOW_MS)
    log.close(clean=True)


@pytest.mark.parametrize("trimmed", [True, False])
def test_only_logs_whose_files_do_not_show_their_start_need_a_checkpoint(trimmed: bool) -> None:
    log = open_test_log()
    append(log, make_batch(3))
    if trimmed:
        log.retention.delete_records_before(2)
    assert log.durability.needs_start_checkpoint() is trimmed


def test_the_start_of_a_log_is_remembered_until_deletions_are_durable() -> None:
    log = open_test_log()
    append(log, make_batch(3))
    log.roll(NOW_MS)
    log.retention.delete_records_before(3)
    apply_retention(log, NOW_MS)
    assert log.durability.needs_start_checkpoint()
    log.flush()
    assert not log.durability.needs_start_checkpoint()


def test_a_clean_close_does_not_overtake_an_append() -> None:
    log = open_test_log()
    log.append_as_leader(make_batch(), leader_epoch=0, now_ms=NOW_MS, deferred=True)
    with pytest.raises(InvariantError):
        log.close(clean=True)
    log.close(clean=False)


def test_an_untouched_log_is_closed_without_a_write() -> None:
    fs = disk()
    written = open_test_log(make_context(fs))
    append(written, make_batch(2))
    written.close(clean=True)
    idle = open_test_log(make_context(fs))
    assert idle.durability.is_untouched
    idle.leader_epochs.assign(7, idle.log_end_offset)
    # Any operation on the disk would fail.
    faulty = FaultyFileSystem(fs, [disk_failure()])
    idle.state.context = make_context(faulty)
    idle.close(clean=True)
    found = open_test_log(make_context(fs))
    assert found.log_end_offset == 2
    append(found, make_batch(2), leader_epoch=8)
    assert not found.durability.is_untouched
    found.close(clean=True)
    assert open_test_log(make_context(fs)).leader_epochs.entries == [(0, 0), (8, 2)]


@pytest.mark.parametrize("change", ["append", "truncate", "trim"])
def test_every_change_touches_a_log(change: str) -> None:
    fs = disk()
    log = open_test_log(make_context(fs))
    for _ in range(3):
        append(log, make_batch(2))
    log.close(clean=True)
    log = open_test_log(make_context(fs))
    assert log.durability.is_untouched
    log.set_high_watermark(log.log_end_offset)
    match change:
        case "append":
            append(log, make_batch(1))
        case "truncate":
            log.truncation.truncate_to(2)
        case _:
            log.retention.delete_records_before(2)
    assert not log.durability.is_untouched


def test_a_log_that_was_recovered_is_written_at_its_close() -> None:
    fs = disk()
    append(open_test_log(make_context(fs)), make_batch(2))
    assert not open_test_log(make_context(fs), options=OpenOptions(now_ms=NOW_MS)).durability.is_untouched
