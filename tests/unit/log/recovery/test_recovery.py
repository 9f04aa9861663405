from __future__ import annotations

import uuid

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import CorruptDataError, OffsetInRemoteTierError, StorageError
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import disk_failure
from crabka.vfs import read_file, write_atomic
from tests.support.storage.small import (
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
from tests.support.storage.tiered import drop_tiered, filled_log, tiered_config

SMALL = TopicConfig(internal_segment_bytes=400, index_interval_bytes=100)
TIERED = tiered_config(local_retention_bytes=0)
UNCLEAN = OpenOptions(now_ms=NOW_MS)
CLEAN = OpenOptions(clean=True, now_ms=NOW_MS)


def stopped(count: int = 12, *, clean: bool = True) -> tuple[MemoryFileSystem, PartitionLog]:
    """Return a disk with a closed log of `count` batches with two records each, in several segments."""
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    fs.fsync_dir("/")
    log = open_test_log(make_context(fs), SMALL)
    for index in range(count):
        append(log, make_batch(2, value_bytes=40, producer=ProducerFields(1, 0, 2 * index)), leader_epoch=index // 6)
    log.close(clean=clean)
    return fs, log


def reopen(fs: MemoryFileSystem, options: OpenOptions = UNCLEAN, config: TopicConfig = SMALL) -> PartitionLog:
    return open_test_log(make_context(fs), config, options)


def segment_path(offset: int, suffix: str = "log") -> str:
    return f"{LOG_PATH}/{offset:020d}.{suffix}"


def test_an_unclean_log_is_read_completely_without_any_index() -> None:
    fs, log = stopped(clean=False)
    for name in fs.listdir(LOG_PATH):
        if not name.endswith(".log"):
            fs.unlink(f"{LOG_PATH}/{name}")
    found = reopen(fs)
    assert found.log_end_offset == 24
    assert [header.base_offset for header in read_headers(found)] == list(range(0, 24, 2))
    assert found.producer_state.entries[1].last_sequence == 23
    assert found.leader_epochs.entries == [(0, 0), (1, 12)]
    assert found.segment_base_offsets == log.segment_base_offsets
    assert all(fs.exists(segment_path(base, "snapshot")) for base in found.segment_base_offsets[1:])


def test_a_torn_tail_is_cut() -> None:
    fs, log = stopped(clean=False)
    path = segment_path(log.segment_base_offsets[-1])
    size = fs.stat(path).size_bytes
    fs.open(path).truncate(size - 3)
    found = reopen(fs)
    assert found.durability.loss is None
    assert found.log_end_offset == 22
    assert append(found, make_batch(1, producer=ProducerFields(1, 0, 22))) == 22
    assert read_headers(found)[-1].base_offset == 22


def test_segments_after_a_damaged_batch_go() -> None:
    fs, log = stopped(clean=False)
    damaged = log.segment_base_offsets[1]
    fs.open(segment_path(damaged)).pwritev([b"\xff"], 70)
    found = reopen(fs)
    assert found.log_end_offset == damaged
    assert found.segment_base_offsets == [0, damaged]
    assert found.producer_state.entries[1].last_sequence == damaged - 1


def test_every_cut_is_a_warning_with_file_offsets_bytes_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    fs, log = stopped(clean=False)
    damaged, later = log.segment_base_offsets[1], log.segment_base_offsets[2:]
    size = fs.stat(segment_path(damaged)).size_bytes
    fs.open(segment_path(damaged)).pwritev([b"\xff"], 70)
    context = make_context(fs)
    open_test_log(context, SMALL, UNCLEAN)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * (1 + len(later))
    assert caplog.messages[0] == (
        f"cut {size} bytes of a log: {segment_path(damaged)}: bytes 0 to {size}, from offset {damaged} on: "
        f"the checksum (CRC-32C) of the batch at offset {damaged} does not match"
    )
    assert all("the segment before it was cut" in message for message in caplog.messages[1:])
    assert context.cuts.cuts == 1 + len(later)
    assert context.cuts.cut_bytes > size


def test_a_log_that_was_cut_below_its_checkpoints_has_a_loss_until_it_is_settled() -> None:
    fs, log = stopped(clean=False)
    damaged = log.segment_base_offsets[1]
    fs.open(segment_path(damaged)).pwritev([b"\xff"], 70)
    found = reopen(fs, OpenOptions(recovery_point=damaged + 1, high_watermark=20, now_ms=NOW_MS))
    loss = found.durability.loss
    assert loss is not None
    assert (loss.offset, loss.end_offset, loss.path) == (damaged, 20, segment_path(damaged))
    assert "CRC" in loss.reason
    # Whatever the log does until then, the next opening finds the loss.
    assert (found.high_watermark, found.durability.checkpoint_high_watermark) == (damaged, 20)
    found.close(clean=True)
    options = OpenOptions(clean=True, recovery_point=damaged, high_watermark=20, now_ms=NOW_MS)
    again = reopen(fs, options)
    assert again.durability.loss is not None
    again.durability.settle_loss()
    assert again.durability.checkpoint_high_watermark == damaged


def test_a_clean_log_that_lost_its_end_has_a_loss() -> None:
    fs, log = stopped(clean=True)
    fs.open(segment_path(log.segment_base_offsets[-1])).truncate(0)
    found = reopen(fs, OpenOptions(clean=True, recovery_point=log.log_end_offset, now_ms=NOW_MS))
    assert found.durability.loss is not None
    assert found.durability.loss.end_offset == log.log_end_offset


def test_damaged_indexes_and_checkpoints_are_named(caplog: pytest.LogCaptureFixture) -> None:
    fs, log = stopped(clean=True)
    base = log.segment_base_offsets[0]
    write_atomic(fs, segment_path(base, "index"), b"xyz")
    write_atomic(fs, f"{LOG_PATH}/leader-epoch-checkpoint", b"xyz")
    context = make_context(fs)
    found = open_test_log(context, SMALL, OpenOptions(clean=True, recovery_point=24, now_ms=NOW_MS))
    read_headers(found)
    assert context.cuts.rebuilt_files == len(caplog.messages) == 2
    assert {message.split(" ")[0] for message in caplog.messages} == {
        segment_path(base, "index"),
        f"{LOG_PATH}/leader-epoch-checkpoint",
    }


def test_segments_after_a_lost_one_go() -> None:
    fs, log = stopped(clean=False)
    fs.unlink(segment_path(log.segment_base_offsets[1]))
    found = reopen(fs)
    assert found.log_end_offset == log.segment_base_offsets[1]


def test_compacted_logs_may_have_holes() -> None:
    fs, log = stopped(clean=False)
    fs.unlink(segment_path(log.segment_base_offsets[1]))
    config = TopicConfig(internal_segment_bytes=400, cleanup_policy=frozenset({"compact"}))
    found = reopen(fs, UNCLEAN, config)
    assert found.log_end_offset == 24
    assert read_headers(found)[-1].last_offset == 23


def test_below_the_recovery_point_nothing_is_checked() -> None:
    fs, log = stopped()
    fs.open(segment_path(0)).pwritev([b"\xff"], 70)
    found = reopen(fs, OpenOptions(recovery_point=log.segment_base_offsets[-1], now_ms=NOW_MS))
    assert found.log_end_offset == 24


def test_a_clean_log_is_not_scanned() -> None:
    fs, _ = stopped()
    fs.open(segment_path(0)).pwritev([b"\xff"], 70)
    found = reopen(fs, CLEAN)
    assert (found.log_end_offset, found.recovery_point) == (24, 24)
    assert found.producer_state.entries[1].last_sequence == 23


def test_a_log_that_claims_to_be_clean_but_is_torn_is_recovered() -> None:
    fs, log = stopped()
    path = segment_path(log.segment_base_offsets[-1])
    fs.open(path).truncate(fs.stat(path).size_bytes - 3)
    assert reopen(fs, CLEAN).log_end_offset == 22


def test_stale_epochs_in_the_checkpoint_do_not_hide_those_of_the_batches() -> None:
    fs, _ = stopped(clean=False)
    write_atomic(fs, f"{LOG_PATH}/leader-epoch-checkpoint", b"0\n2\n0 0\n1 999\n")
    assert reopen(fs).leader_epochs.entries == [(0, 0), (1, 12)]


def test_leftovers_are_swept() -> None:
    fs, _ = stopped()
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "x.tmp"):
        fs.open(f"{LOG_PATH}/{name}", create=True)
    fs.open(segment_path(777, "index"), create=True)
    reopen(fs, CLEAN)
    assert not any(name.endswith(("deleted", "cleaned", "tmp")) or "777" in name for name in fs.listdir(LOG_PATH))


def test_deleted_segments_that_came_back_go_again() -> None:
    fs, log = stopped()
    second = log.segment_base_offsets[1]
    found = reopen(fs, OpenOptions(clean=True, log_start_offset=second + 1, now_ms=NOW_MS))
    assert found.segment_base_offsets == log.segment_base_offsets[1:]
    assert (found.log_start_offset, found.high_watermark) == (second + 1, second + 1)


def test_a_log_that_lost_everything_above_its_start_begins_there() -> None:
    fs, _ = stopped(2, clean=False)
    fs.open(segment_path(0)).truncate(0)
    found = reopen(fs, OpenOptions(log_start_offset=3, now_ms=NOW_MS))
    assert (found.log_start_offset, found.log_end_offset) == (3, 3)
    assert append(found, make_batch()) == 3


def test_what_the_log_start_took_away_stays_away_after_a_power_cut() -> None:
    fs, log = stopped()
    second = log.segment_base_offsets[1]
    reopen(fs, OpenOptions(clean=True, log_start_offset=second, now_ms=NOW_MS))
    fs.crash()
    assert reopen(fs).log_start_offset == second


def test_a_log_that_began_anew_keeps_its_start_after_a_power_cut() -> None:
    fs, _ = stopped(2)
    fs.open(segment_path(0)).truncate(0)
    reopen(fs, OpenOptions(log_start_offset=3, now_ms=NOW_MS))
    fs.crash()
    assert reopen(fs).log_start_offset == 3


def test_a_log_whose_directory_was_lost_keeps_its_start_after_another_power_cut() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    fs.fsync_dir("/")
    assert reopen(fs, OpenOptions(log_start_offset=3, now_ms=NOW_MS)).log_start_offset == 3
    fs.crash()
    assert reopen(fs).log_start_offset == 3


def test_records_that_should_have_been_flushed_are_flushed_at_the_opening() -> None:
    fs, log = stopped(2)
    handle = fs.open(segment_path(0))
    handle.pwritev([make_batch(base_offset=log.log_end_offset)], handle.size())
    found = reopen(fs, OpenOptions(recovery_point=4, now_ms=NOW_MS), TopicConfig(flush_messages=1))
    assert found.recovery_point == found.log_end_offset == 5
    fs.crash()
    assert reopen(fs).log_end_offset == 5


def test_a_tiered_log_starts_below_its_files() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    log = open_test_log(make_context(fs))
    log.truncation.truncate_fully(50)
    log.close(clean=True)
    found = reopen(fs, CLEAN, TopicConfig(remote_storage_enable=True))
    assert (found.log_start_offset, found.local_log_start_offset, found.log_end_offset) == (0, 50, 50)


def test_silent_producers_are_forgotten_at_the_opening() -> None:
    fs, _ = stopped()
    options = OpenOptions(clean=True, now_ms=NOW_MS + 5000, producer_id_expiration_ms=1000)
    assert reopen(fs, options).producer_state.active_producers() == []


def test_the_topic_id_is_written_once_and_checked() -> None:
    fs, _ = stopped()
    topic_id = uuid.UUID(int=8)
    found = reopen(fs, OpenOptions(clean=True, topic_id=topic_id))
    assert found.topic_id == topic_id
    assert read_file(fs, f"{LOG_PATH}/partition.metadata").startswith(b"version: 0\ntopic_id: ")
    assert reopen(fs, CLEAN).topic_id == topic_id
    with pytest.raises(CorruptDataError, match="belongs to topic id"):
        reopen(fs, OpenOptions(clean=True, topic_id=uuid.UUID(int=9)))


def test_a_failing_disk_is_reported_with_its_log_dir() -> None:
    fs, _ = stopped()
    with pytest.raises(StorageError) as caught:
        open_test_log(make_context(FaultyFileSystem(fs, [disk_failure()])), SMALL, UNCLEAN)
    assert caught.value.log_dir == LOG_DIR


def tiered_and_trimmed(fs: MemoryFileSystem) -> PartitionLog:
    """Return a log that starts at 3, in the tier, and at 6 on this disk."""
    fs.makedirs(LOG_DIR)
    fs.fsync_dir("/")
    log = filled_log(TIERED, context=make_context(fs))
    log.tiering.note_remote_offset(5)
    log.retention.raise_log_start(3)
    drop_tiered(log)
    return log


@pytest.mark.parametrize("ending", ["clean stop", "kill", "power cut"])
def test_both_starts_and_the_epochs_between_them_outlive_a_restart(ending: str) -> None:
    fs = MemoryFileSystem()
    log = tiered_and_trimmed(fs)
    if ending == "clean stop":
        log.close(clean=True)
    elif ending == "power cut":
        fs.crash()
    options = OpenOptions(
        clean=ending == "clean stop", recovery_point=10, log_start_offset=3, high_watermark=10, now_ms=NOW_MS
    )
    found = reopen(fs, options, TIERED)
    assert (found.log_start_offset, found.local_log_start_offset, found.log_end_offset) == (3, 6, 10)
    assert found.leader_epochs.entries == [(0, 3), (1, 4), (2, 8)]
    assert found.high_watermark == 10
    assert found.producer_state.entries[1].last_sequence == 9
    with pytest.raises(OffsetInRemoteTierError):
        found.read(5, max_bytes=100)


def test_a_high_watermark_that_was_lost_is_not_below_the_local_start() -> None:
    fs = MemoryFileSystem()
    tiered_and_trimmed(fs)
    assert reopen(fs, OpenOptions(log_start_offset=3, now_ms=NOW_MS), TIERED).high_watermark == 6


def test_without_a_checkpoint_a_tiered_log_starts_at_zero_as_in_kafka() -> None:
    fs = MemoryFileSystem()
    tiered_and_trimmed(fs)
    found = reopen(fs, UNCLEAN, TIERED)
    assert (found.log_start_offset, found.local_log_start_offset) == (0, 6)


def test_segments_below_the_log_start_of_a_tiered_log_that_came_back_go_again() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    filled_log(TIERED, context=make_context(fs))
    found = reopen(fs, OpenOptions(log_start_offset=5, now_ms=NOW_MS), TIERED)
    assert found.segment_base_offsets == [4, 6, 8]


def test_a_tiered_log_on_a_node_without_a_tier_begins_with_its_files() -> None:
    fs = MemoryFileSystem()
    tiered_and_trimmed(fs)
    context = make_context(fs)
    context.tiering = False
    found = open_test_log(context, TIERED, OpenOptions(log_start_offset=3, now_ms=NOW_MS))
    assert (found.is_tiered, found.log_start_offset) == (False, 6)


def test_epochs_below_the_log_start_that_came_back_go_again() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_DIR)
    filled_log(TIERED, context=make_context(fs))
    found = reopen(fs, OpenOptions(recovery_point=10, log_start_offset=5, now_ms=NOW_MS), TIERED)
    assert found.leader_epochs.entries == [(1, 5), (2, 8)]


def test_epochs_that_were_cut_with_a_log_start_that_a_crash_took_are_found_again() -> None:
    fs, log = stopped(clean=False)
    log.retention.delete_records_before(13)
    log.flush()
    assert log.leader_epochs.entries == [(1, 13)]
    fs.crash()
    found = reopen(fs, OpenOptions(recovery_point=log.recovery_point, log_start_offset=0, now_ms=NOW_MS))
    assert (found.log_start_offset, found.leader_epochs.entries) == (0, [(0, 0), (1, 12)])
    kept = reopen(fs, OpenOptions(recovery_point=log.recovery_point, log_start_offset=13, now_ms=NOW_MS))
    assert kept.leader_epochs.entries == [(1, 13)]


@pytest.mark.parametrize(
    "content",
    [b"0\n2\n0 0\n9 12\n", b"0\n2\n0 0\n0 12\n", b"0\n2\n7 0\n1 12\n", b"0\n2\n0 x\n1 12\n", b"1\n2\n0 0\n1 12\n"],
)
def test_a_damaged_epoch_checkpoint_is_rebuilt_from_the_batches_after_a_clean_stop(content: bytes) -> None:
    fs, log = stopped()
    right = log.leader_epochs.entries
    assert right == [(0, 0), (1, 12)]
    write_atomic(fs, f"{LOG_PATH}/leader-epoch-checkpoint", content)
    found = reopen(fs, CLEAN)
    assert found.leader_epochs.entries == right
    assert found.leader_epochs.dirty


def test_a_lost_epoch_checkpoint_is_rebuilt_from_the_batches_after_a_clean_stop() -> None:
    fs, log = stopped()
    fs.unlink(f"{LOG_PATH}/leader-epoch-checkpoint")
    assert reopen(fs, CLEAN).leader_epochs.entries == log.leader_epochs.entries
