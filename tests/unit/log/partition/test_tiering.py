from __future__ import annotations

import errno
import uuid
from dataclasses import replace

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import CorruptDataError, InvariantError, OffsetInRemoteTierError, OperationError, StorageError
from crabka.formats.checkpoints import decode_epochs
from crabka.log.producers.producer_state import AppendOrigin, ProducerEntry
from crabka.log.producers.snapshots import decode_snapshot, encode_snapshot
from crabka.log.recovery.recovery import OpenOptions
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs import read_file
from tests.support.storage.small import (
    LOG_DIR,
    LOG_PATH,
    NOW_MS,
    SEGMENT_BYTES,
    ProducerFields,
    append,
    apply_retention,
    make_batch,
    make_context,
    open_test_log,
    read_headers,
)
from tests.support.storage.tiered import EMPTY_SNAPSHOT, drop_tiered, filled_log, tiered_config

SMALL_LOCAL = tiered_config(local_retention_bytes=SEGMENT_BYTES)


def snapshot_of(producer_id: int) -> bytes:
    """Return a snapshot with one producer that was active just now."""
    entry = ProducerEntry(producer_id, 3)
    entry.last_timestamp = NOW_MS
    return encode_snapshot([entry])


# -- what goes to the tier ------------------------------------------------------------------------------------------


def test_sealed_segments_are_offered_in_order_with_complete_files() -> None:
    context = make_context()
    log = filled_log(context=context)
    offered = log.tiering.tierable_segments(0, log.log_end_offset)
    assert [(each.base_offset, each.end_offset) for each in offered] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    for each in offered:
        assert each.is_flushed
        assert each.size_bytes == SEGMENT_BYTES
        assert each.max_timestamp_ms == NOW_MS + 1000 * each.end_offset
        assert each.txn_index_path is None
        assert log.tiering.prepare_for_copy(each)
        assert context.fs.stat(each.log_path).size_bytes == each.size_bytes
        assert len(read_file(context.fs, each.offset_index_path)) == 8
        assert read_file(context.fs, each.time_index_path)
        producers = decode_snapshot(read_file(context.fs, each.producer_snapshot_path))
        assert [entry.last_sequence for entry in producers] == [each.end_offset]


def test_what_is_offered_ends_between_the_two_offsets() -> None:
    log = filled_log()

    def ends(start: int, upper: int, limit: int = 99) -> list[int]:
        return [each.end_offset for each in log.tiering.tierable_segments(start, upper, limit=limit)]

    assert ends(3, 8) == [3, 5, 7]
    assert ends(4, 7) == [5]
    assert ends(6, 100) == [7]
    assert ends(8, 100) == []
    assert ends(0, 100, limit=2) == [1, 3]
    assert ends(-5, 2) == [1]


def test_segments_above_the_recovery_point_are_not_flushed() -> None:
    log = filled_log(count=5)
    for index in range(5, 9):
        append(log, make_batch(producer=ProducerFields(1, 0, index)))
    assert [each.is_flushed for each in log.tiering.tierable_segments(0, 100)] == [True, True, False, False]
    plan = log.durability.begin_flush()
    assert plan is not None
    plan.run()
    log.durability.finish_flush(plan)
    assert all(each.is_flushed for each in log.tiering.tierable_segments(0, 100))


def test_a_segment_with_an_abort_brings_its_transaction_index() -> None:
    log = open_test_log(config=tiered_config(internal_segment_bytes=4096))
    append(log, make_batch(producer=ProducerFields(7), transactional=True))
    marker = build_end_transaction_batch(
        EndTransactionMarker(committed=False, coordinator_epoch=0), producer_id=7, producer_epoch=1, timestamp=NOW_MS
    )
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.roll(NOW_MS)
    (offered,) = log.tiering.tierable_segments(0, 100)
    assert offered.txn_index_path == offered.log_path.replace(".log", ".txnindex")


def test_lost_index_files_and_snapshots_are_made_again_before_a_copy() -> None:
    context = make_context()
    log = filled_log(context=context)
    offered = log.tiering.tierable_segments(0, 100)[1]
    wanted = {
        path: read_file(context.fs, path)
        for path in (offered.offset_index_path, offered.time_index_path, offered.producer_snapshot_path)
    }
    for path in wanted:
        context.fs.unlink(path)
    assert log.tiering.prepare_for_copy(offered)
    assert {path: read_file(context.fs, path) for path in wanted} == wanted


def test_a_padded_index_file_is_trimmed_before_a_copy() -> None:
    context = make_context()
    log = filled_log(context=context)
    offered = log.tiering.tierable_segments(0, 100)[0]
    wanted = read_file(context.fs, offered.offset_index_path)
    file = context.fs.open(offered.offset_index_path)
    file.pwritev([bytes(80)], len(wanted))
    file.close()
    assert log.tiering.prepare_for_copy(offered)
    assert read_file(context.fs, offered.offset_index_path) == wanted


def test_a_segment_that_was_cut_is_not_prepared() -> None:
    log = filled_log()
    offered = log.tiering.tierable_segments(0, 100)
    log.truncation.truncate_to(5, now_ms=NOW_MS)
    assert [log.tiering.prepare_for_copy(each) for each in offered] == [True, True, False, False]
    assert [log.tiering.has_segment(each) for each in offered] == [True, True, False, False]


# -- what is missing at the end ---------------------------------------------------------------------------------------


def test_a_log_without_records_may_lack_its_end_until_it_is_compared_or_grows() -> None:
    log = open_test_log(make_context(), tiered_config())
    assert log.durability.may_be_short
    append(log, make_batch())
    assert not log.durability.may_be_short
    other = open_test_log(make_context(), tiered_config())
    other.durability.trust_end()
    assert not other.durability.may_be_short
    assert not open_test_log(make_context(), TopicConfig()).durability.may_be_short


def test_every_opening_finds_that_the_end_is_missing() -> None:
    context = make_context()
    filled_log(context=context).close(clean=True)
    options = OpenOptions(clean=True, recovery_point=20, high_watermark=19)
    log = open_test_log(context, tiered_config(), options)
    log.durability.settle_loss()
    assert (log.durability.may_be_short, log.durability.checkpoint_high_watermark) == (True, 20)
    log.close(clean=True)
    after = OpenOptions(clean=True, recovery_point=log.recovery_point, high_watermark=20)
    again = open_test_log(context, tiered_config(), after)
    again.durability.settle_loss()
    assert again.durability.may_be_short
    again.durability.trust_end()
    assert again.durability.checkpoint_high_watermark == again.high_watermark < 20


# -- what leaves this disk ------------------------------------------------------------------------------------------


def test_nothing_leaves_before_it_is_in_the_tier() -> None:
    log = filled_log(SMALL_LOCAL)
    assert drop_tiered(log) == []
    log.tiering.note_remote_offset(4)
    assert drop_tiered(log) == [0, 2]
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)


def test_nothing_leaves_for_what_is_not_in_the_tier_any_more() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(5)
    log.tiering.note_remote_offset(1)
    assert drop_tiered(log) == [0]
    log.tiering.note_remote_offset(-1)
    assert (drop_tiered(log), log.tiering.highest_remote_offset) == ([], -1)


def test_the_extents_of_a_log_are_those_of_its_segments_with_records() -> None:
    log = filled_log()
    extents = log.tiering.local_extents()
    assert [each.base_offset for each in extents] == log.segment_base_offsets
    assert [each.end_offset + 1 for each in extents] == [*log.segment_base_offsets[1:], log.log_end_offset]
    assert sum(each.size_bytes for each in extents) == log.size_bytes
    log.roll(NOW_MS)
    assert log.tiering.local_extents() == extents


def test_what_the_tier_does_not_hold_to_its_end_is_untiered() -> None:
    log = filled_log()
    assert log.tiering.untiered() == (4, 4 * SEGMENT_BYTES, SEGMENT_BYTES)
    log.tiering.note_remote_offset(4)
    assert log.tiering.untiered() == (2, 2 * SEGMENT_BYTES, SEGMENT_BYTES)
    log.tiering.note_remote_offset(9)
    assert log.tiering.untiered() == (0, 0, SEGMENT_BYTES)


def test_a_log_that_is_not_tiered_has_no_remote_offset() -> None:
    log = filled_log(tiered_config(remote_storage_enable=False))
    log.tiering.note_remote_offset(5)
    assert log.tiering.highest_remote_offset == -1


def test_local_retention_by_size_keeps_what_it_promises() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(9)
    assert drop_tiered(log) == [0, 2, 4, 6]
    assert log.segment_base_offsets == [8]
    assert log.log_start_offset == 0


def test_local_retention_by_time_keeps_what_is_young() -> None:
    log = filled_log(tiered_config(local_retention_ms=5000))
    log.tiering.note_remote_offset(9)
    assert drop_tiered(log, NOW_MS + 9000) == [0, 2]
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)


def test_without_local_limits_the_total_ones_count() -> None:
    log = filled_log(tiered_config(retention_ms=5000))
    log.tiering.note_remote_offset(9)
    assert drop_tiered(log, NOW_MS + 9000) == [0, 2]
    # The tier, not this disk, says where the log starts.
    assert log.log_start_offset == 0


def test_a_segment_without_timestamps_goes_by_the_age_of_its_file() -> None:
    fs = MemoryFileSystem(now_ms=lambda: NOW_MS)
    fs.makedirs(LOG_DIR)
    log = open_test_log(make_context(fs), tiered_config(local_retention_ms=5000, internal_segment_bytes=200))
    for _ in range(6):
        append(log, make_batch(timestamp=-1))
    log.flush()
    log.tiering.note_remote_offset(5)
    assert drop_tiered(log, NOW_MS + 5000) == []
    assert [each.max_timestamp_ms for each in log.tiering.tierable_segments(0, 2)] == [NOW_MS]
    assert drop_tiered(log, NOW_MS + 5001) != []


def test_segments_above_the_high_watermark_or_the_recovery_point_stay() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(9)
    log.set_high_watermark(5)
    assert drop_tiered(log) == [0, 2]
    log.set_high_watermark(10)
    log.truncation.announce(6)
    assert drop_tiered(log) == [4]


def test_segments_below_the_log_start_go_without_being_in_the_tier() -> None:
    log = filled_log()
    log.retention.delete_records_before(5)
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS)] == [0, 2]
    assert (log.log_start_offset, log.local_log_start_offset) == (5, 5)


def test_with_copying_disabled_retention_deletes_as_without_a_tier() -> None:
    log = filled_log(tiered_config(remote_log_copy_disable=True, retention_bytes=SEGMENT_BYTES))
    assert drop_tiered(log) == []
    assert [segment.base_offset for segment in apply_retention(log, NOW_MS)] == [0, 2, 4, 6]
    assert (log.log_start_offset, log.local_log_start_offset) == (8, 8)


def test_an_active_segment_past_local_retention_is_sealed_for_the_tier() -> None:
    log = filled_log(tiered_config(local_retention_ms=5000), count=2)
    assert not log.retention.roll_if_past_local_retention(NOW_MS + 6000)
    assert log.retention.roll_if_past_local_retention(NOW_MS + 6001)
    assert log.segment_base_offsets == [0, 2]
    assert not log.retention.roll_if_past_local_retention(NOW_MS + 6001)
    log.flush()
    log.tiering.note_remote_offset(1)
    assert drop_tiered(log, NOW_MS + 6001) == [0]
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 2, 2)


def test_an_active_segment_above_the_high_watermark_is_not_sealed() -> None:
    log = filled_log(tiered_config(local_retention_ms=5000), count=2)
    log.set_high_watermark(1)
    assert not log.retention.roll_if_past_local_retention(NOW_MS + 60_000)


def test_a_segment_waits_for_the_append_that_is_on_its_way() -> None:
    log = filled_log(tiered_config(local_retention_ms=5000), count=1)
    log.append_as_leader(
        make_batch(producer=ProducerFields(1, 0, 1)), leader_epoch=0, now_ms=NOW_MS, header=None, deferred=True
    )
    assert not log.retention.roll_if_past_local_retention(NOW_MS + 60_000)


def test_the_names_of_a_log_that_was_deleted_need_no_sync() -> None:
    log = filled_log()
    path = log.path
    log.moving.delete(uuid.UUID(int=1), NOW_MS)
    log.state.path = path
    log.retention.sync_names()


def test_a_failed_sync_of_names_is_a_storage_error() -> None:
    inner = MemoryFileSystem()
    inner.makedirs(LOG_DIR)
    fs = FaultyFileSystem(inner)
    log = filled_log(context=make_context(fs))
    fs.add(FaultRule(operation="fsync_dir", error=errno.EIO))
    with pytest.raises(StorageError):
        log.retention.sync_names()


# -- offsets and epochs ---------------------------------------------------------------------------------------------


def test_epochs_are_kept_from_the_log_start_on() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(9)
    drop_tiered(log)
    assert log.leader_epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert log.retention.raise_log_start(5)
    assert log.leader_epochs.entries == [(1, 5), (2, 8)]


def test_the_log_start_rises_below_the_local_start_and_touches_no_segment() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(5)
    drop_tiered(log)
    assert log.retention.raise_log_start(3)
    assert not log.retention.raise_log_start(2)
    assert (log.log_start_offset, log.local_log_start_offset) == (3, 6)
    assert log.segment_base_offsets == [6, 8]
    with pytest.raises(OperationError) as caught:
        log.retention.raise_log_start(11)
    assert caught.value.error_code is ErrorCode.offset_out_of_range


def test_delete_records_works_below_and_above_the_local_start() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(5)
    drop_tiered(log)
    assert log.retention.delete_records_before(2) == 2
    assert log.local_log_start_offset == 6
    assert log.retention.delete_records_before(7) == 7
    assert (log.log_start_offset, log.local_log_start_offset) == (7, 7)
    assert log.retention.delete_records_before(-1) == 10


def test_truncation_below_the_local_start_leaves_the_tier_a_part_of_the_log() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(7)
    drop_tiered(log)
    assert log.truncation.truncate_to(5, now_ms=NOW_MS)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 5, 5)
    assert log.leader_epochs.entries == [(0, 0), (1, 4)]
    assert log.high_watermark == 5
    assert log.truncation.truncate_to(0, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (0, 0, [])


def test_truncation_to_the_local_start_keeps_the_producers_of_the_tier() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(7)
    drop_tiered(log)
    assert log.truncation.truncate_to(8, now_ms=NOW_MS)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 8, 8)
    assert log.producer_state.entries[1].last_sequence == 7
    assert append(log, make_batch(producer=ProducerFields(1, 0, 8)), leader_epoch=2) == 8


def test_a_log_that_leaves_the_tier_begins_with_what_is_here() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(5)
    drop_tiered(log)
    log.update_config(replace(SMALL_LOCAL, remote_storage_enable=False))
    assert not log.is_tiered
    assert (log.log_start_offset, log.tiering.highest_remote_offset) == (6, -1)
    assert log.leader_epochs.entries == [(1, 6), (2, 8)]


def test_compacted_and_internal_topics_and_nodes_without_a_tier_are_not_tiered() -> None:
    assert filled_log().is_tiered
    assert not filled_log(tiered_config(cleanup_policy=frozenset({"compact"}))).is_tiered
    assert not filled_log(TopicConfig()).is_tiered
    context = make_context()
    context.tiering = False
    assert not filled_log(context=context).is_tiered


# -- beginning anew -------------------------------------------------------------------------------------------------


def test_a_follower_restarts_after_the_tier() -> None:
    context = make_context()
    log = filled_log(context=context)
    snapshot = snapshot_of(5)
    log.truncation.announce(0)
    log.tiering.rebuild_from_remote(
        100, log_start_offset=20, epochs=[(0, 0), (3, 50), (4, 99), (9, 100)], producer_snapshot=snapshot
    )
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (20, 100, 100)
    assert (log.high_watermark, log.last_stable_offset, log.recovery_point) == (100, 100, 100)
    assert log.leader_epochs.entries == [(0, 20), (3, 50), (4, 99)]
    assert [each.producer_id for each in log.producer_state.entries.values()] == [5]
    assert read_file(context.fs, f"{LOG_PATH}/{100:020d}.snapshot") == snapshot
    batch = make_batch(3, base_offset=100, leader_epoch=9)
    log.copying.append_as_follower(batch)
    assert read_headers(log, 100)[0].next_offset == 103
    with pytest.raises(OffsetInRemoteTierError):
        log.read(99, max_bytes=1000)


def test_what_a_rebuild_wrote_survives_a_power_cut() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    fs.fsync_dir("/")
    log = filled_log(context=make_context(fs))
    log.tiering.rebuild_from_remote(
        100, log_start_offset=20, epochs=[(0, 0), (4, 60)], producer_snapshot=snapshot_of(5)
    )
    fs.crash()
    options = OpenOptions(recovery_point=100, log_start_offset=20, now_ms=NOW_MS)
    opened = open_test_log(make_context(fs), tiered_config(), options)
    assert (opened.log_start_offset, opened.local_log_start_offset, opened.log_end_offset) == (20, 100, 100)
    assert opened.leader_epochs.entries == [(0, 20), (4, 60)]
    assert list(opened.producer_state.entries) == [5]
    text = read_file(fs, f"{LOG_PATH}/leader-epoch-checkpoint")
    assert decode_epochs(text) == [(0, 20), (4, 60)]


def test_a_damaged_snapshot_changes_nothing() -> None:
    log = filled_log()
    with pytest.raises(CorruptDataError):
        log.tiering.rebuild_from_remote(100, log_start_offset=0, epochs=[(0, 0)], producer_snapshot=b"damaged")
    assert len(read_headers(log, 0)) == 10


def test_only_a_tiered_log_is_rebuilt() -> None:
    log = filled_log(tiered_config(remote_storage_enable=False))
    with pytest.raises(OperationError, match="is not tiered"):
        log.tiering.rebuild_from_remote(100, log_start_offset=0, epochs=[(0, 0)], producer_snapshot=EMPTY_SNAPSHOT)


def test_a_rebuild_does_not_overtake_an_append() -> None:
    log = filled_log()
    log.append_as_leader(
        make_batch(producer=ProducerFields(1, 0, 10)), leader_epoch=2, now_ms=NOW_MS, header=None, deferred=True
    )
    with pytest.raises(InvariantError):
        log.tiering.rebuild_from_remote(100, log_start_offset=0, epochs=[(0, 0)], producer_snapshot=EMPTY_SNAPSHOT)


def test_nothing_leaves_while_it_is_in_doubt_what_the_tier_holds() -> None:
    log = filled_log(SMALL_LOCAL)
    log.tiering.note_remote_offset(5)
    log.tiering.doubt_remote_offset()
    assert (drop_tiered(log), log.tiering.highest_remote_offset) == ([], 5)
    log.tiering.note_remote_offset(3)
    assert drop_tiered(log) == [0, 2]
