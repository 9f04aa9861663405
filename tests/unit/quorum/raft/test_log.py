from __future__ import annotations

import contextlib
import random

import pytest

from crabka.kraft.actions import AppendControl, AppendRecords, KRaftVersionChange, LeaderChange, VotersChange
from crabka.kraft.events import LogAppended, LogTruncated, SnapshotInstalled, SnapshotRefused
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import LogRange, SnapshotRange
from crabka.kraft.voters import VoterSet
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, encode_snapshot, write_snapshot
from crabka.quorum.storage import MetadataStorage
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file, write_atomic
from tests.support.quorum.node import DIRECTORY, LOG_DIRECTORY, VOTER, formatted_disk

SMALL = MetadataLogSettings(segment_bytes=300)
VOTERS = VoterSet((VOTER,))


def _open(fs: MemoryFileSystem, settings: MetadataLogSettings = SMALL) -> RaftLog:
    return RaftLog(MetadataStorage.open(fs, DIRECTORY, settings, now_ms=10))


def _batch(base_offset: int, epoch: int = 1, count: int = 1) -> bytes:
    value = encode_record(NoOpRecord())
    records = [Record(base_offset + index, 10, None, value) for index in range(count)]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


def _filled(fs: MemoryFileSystem, count: int = 12) -> RaftLog:
    """Four records of each epoch."""
    log = _open(fs)
    log.append_batches([_batch(number, 1 + number // 4) for number in range(count)], 10)
    log.begin_flush().run()
    return log


def _snapshot_bytes(snapshot: OffsetAndEpoch) -> bytes:
    content = SnapshotContent((), 10, 1, (VOTER,))
    return b"".join(encode_snapshot(content, epoch=snapshot.epoch, now_ms=10))


def _write_snapshot(fs: MemoryFileSystem, offset: int, epoch: int) -> None:
    path = f"{LOG_DIRECTORY}/{SnapshotId(offset, epoch).file_name}"
    write_snapshot(fs, path, SnapshotContent((), 10, 1, (VOTER,)), epoch=epoch, now_ms=10)


def test_a_formatted_directory_has_an_empty_log_and_the_bootstrap_snapshot() -> None:
    log = _open(formatted_disk())
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
    assert log.latest_snapshot == log.earliest_snapshot == OffsetAndEpoch(0, 0)
    assert log.end_offset_for_epoch(5) == OffsetAndEpoch(0, 0)
    history = log.history(VoterSet())
    assert (history.voters, history.voters_offset, history.kraft_version) == (VOTERS, -1, 1)


def test_epochs_end_where_the_next_begins() -> None:
    log = _filled(formatted_disk())
    ends = [log.end_offset_for_epoch(epoch) for epoch in range(5)]
    assert ends == [(0, 0), (4, 1), (8, 2), (12, 3), (12, 3)]
    assert log.last_epoch == 3


def test_control_records_are_reported_and_found_again() -> None:
    fs = formatted_disk(())
    log = _open(fs)
    records = (LeaderChange(1, (1,), (1,)), KRaftVersionChange(1), VotersChange(VOTERS))
    appended = log.append_control(AppendControl(3, 0, records), 10)
    assert appended == LogAppended(3, ((1, records[1]), (2, records[2])))
    log.begin_flush().run()
    fs.crash()
    history = _open(fs).history(VoterSet())
    assert (history.voters, history.voters_offset, history.kraft_version_offset) == (VOTERS, 2, 1)


def test_a_static_quorum_takes_its_voters_from_the_config() -> None:
    log = _open(formatted_disk(()))
    assert log.latest_snapshot is None
    assert log.history(VOTERS).voters == VOTERS
    assert log.history(VOTERS).kraft_version == 0


def test_fetched_batches_are_appended_as_they_are() -> None:
    log = _filled(formatted_disk(), 4)
    data = _batch(4, 2) + _batch(5, 3, count=2)
    assert log.append_fetched(AppendRecords(4, 3, data), 10) == LogAppended(7)
    assert log.read(LogRange(4, 10_000)) == data


@pytest.mark.parametrize(
    "bad",
    [
        _batch(6, 2),  # a gap
        _batch(4, 2),  # again
        _batch(5, 4),  # of a later epoch than the leader's
        _batch(5, 1),  # of an older epoch than the one before
        _batch(5, 2)[:-1] + b"\xff",
        _batch(5, 2)[:-1],
    ],
)
def test_fetched_batches_from_a_wrong_one_on_are_left_out(bad: bytes) -> None:
    log = _filled(formatted_disk(), 4)
    assert log.append_fetched(AppendRecords(4, 3, _batch(4, 2) + bad), 10) == LogAppended(5)
    assert log.last_epoch == 2


def test_truncation_returns_to_an_earlier_end() -> None:
    fs = formatted_disk()
    log = _filled(fs)
    assert log.truncate(5, 10) == LogTruncated(5)
    assert (log.end_offset, log.last_epoch) == (5, 2)
    fs.crash()
    assert _open(fs).end_offset == 5


def test_a_pruned_log_starts_where_its_oldest_snapshot_ends() -> None:
    fs = formatted_disk()
    log = _filled(fs)
    _write_snapshot(fs, 7, 2)
    _write_snapshot(fs, 10, 3)
    storage = MetadataStorage.open(fs, DIRECTORY, SMALL, now_ms=10)
    assert storage.log.delete_before(7)
    fs.unlink(f"{LOG_DIRECTORY}/{SnapshotId(0, 0).file_name}")
    log = _open(fs)
    assert 0 < storage.log.start_offset <= 7
    assert (log.start_offset, log.earliest_snapshot, log.latest_snapshot) == (7, (7, 2), (10, 3))
    assert [log.end_offset_for_epoch(epoch) for epoch in range(4)] == [(7, 2), (7, 2), (8, 2), (12, 3)]


def test_a_snapshot_is_read_in_pieces_and_installed_elsewhere() -> None:
    source, target = formatted_disk(), formatted_disk()
    log = _filled(source)
    _write_snapshot(source, 10, 3)
    log.refresh_snapshots()
    wanted = OffsetAndEpoch(10, 3)
    size = log.snapshot_size(wanted)
    assert size is not None
    other = _filled(target, 3)
    for position in range(0, size, 50):
        piece = log.read_snapshot(SnapshotRange(wanted, position, 50))
        assert piece
        other.write_chunk(wanted, position, piece)
    assert other.install(wanted, 10) == SnapshotInstalled(wanted, VOTERS, 1)
    target.crash()
    for found in (other, _open(target)):
        assert (found.start_offset, found.end_offset, found.last_epoch) == (10, 10, 3)
        assert found.latest_snapshot == found.earliest_snapshot == wanted
        assert found.history(VoterSet()).voters_offset == 9


def test_a_malformed_snapshot_is_refused_and_removed() -> None:
    fs = formatted_disk()
    log = _filled(fs)
    wanted = OffsetAndEpoch(20, 3)
    log.write_chunk(wanted, 0, _snapshot_bytes(wanted)[:-5])
    assert isinstance(log.install(wanted, 10), SnapshotRefused)
    assert log.end_offset == 12
    assert not [name for name in fs.listdir(LOG_DIRECTORY) if name.endswith(".part")]


def test_a_snapshot_that_is_gone_has_no_bytes() -> None:
    log = _filled(formatted_disk())
    assert log.snapshot_size(OffsetAndEpoch(10, 3)) is None
    assert log.read_snapshot(SnapshotRange(OffsetAndEpoch(10, 3), 0, 10)) is None


class _PowerCutError(Exception):
    pass


class _CuttingFileSystem(MemoryFileSystem):
    """Loses power at the n-th change of names or sync of a directory."""

    cut_in: int | None = None

    def _tick(self) -> None:
        if self.cut_in is not None:
            self.cut_in -= 1
            if self.cut_in < 0:
                raise _PowerCutError

    def unlink(self, path: str) -> None:
        self._tick()
        super().unlink(path)

    def rename(self, old: str, new: str) -> None:
        self._tick()
        super().rename(old, new)

    def fsync_dir(self, path: str) -> None:
        self._tick()
        super().fsync_dir(path)


@pytest.mark.parametrize("cut_in", range(12))
@pytest.mark.parametrize("lossy", [False, True])
def test_a_power_cut_while_a_snapshot_is_installed_leaves_the_old_log_or_the_new(cut_in: int, lossy: bool) -> None:
    fs = _CuttingFileSystem()
    _copy(formatted_disk(), fs)
    log = _filled(fs)
    wanted = OffsetAndEpoch(6, 5)
    log.write_chunk(wanted, 0, _snapshot_bytes(wanted))
    fs.cut_in = cut_in
    with contextlib.suppress(_PowerCutError):
        log.install(wanted, 10)
    fs.cut_in = None
    fs.crash(random.Random(cut_in) if lossy else None)
    again = _open(fs)
    if again.latest_snapshot == wanted:
        assert (again.start_offset, again.end_offset, again.last_epoch) == (6, 6, 5)
    else:
        assert (again.start_offset, again.end_offset, again.last_epoch) == (0, 12, 3)
    again.append_batches([_batch(again.end_offset, 6)], 10)
    assert again.end_offset_for_epoch(6).epoch == 6


@pytest.mark.parametrize("cut_in", range(8))
def test_a_power_cut_while_the_log_is_cut_leaves_a_prefix(cut_in: int) -> None:
    fs = _CuttingFileSystem()
    _copy(formatted_disk(), fs)
    log = _filled(fs)
    fs.cut_in = cut_in
    with contextlib.suppress(_PowerCutError):
        log.truncate(2, 10)
    fs.cut_in = None
    fs.crash()
    again = _open(fs)
    assert 2 <= again.end_offset <= 12
    assert again.last_epoch == 1 + (again.end_offset - 1) // 4
    assert again.read(LogRange(0, 1)) == _batch(0)


def _copy(source: MemoryFileSystem, target: MemoryFileSystem) -> None:
    """Copy the formatted directory."""
    for directory in (DIRECTORY, LOG_DIRECTORY):
        target.makedirs(directory)
        target.fsync_dir(directory.rpartition("/")[0] or "/")
        for name in source.listdir(directory):
            if not source.stat(f"{directory}/{name}").is_dir:
                write_atomic(target, f"{directory}/{name}", read_file(source, f"{directory}/{name}"))


def test_records_of_which_none_is_fit_are_refused_with_their_reason(caplog: pytest.LogCaptureFixture) -> None:
    log = _filled(formatted_disk(), 4)
    bad = _batch(4, 2)[:-1] + b"\xff"
    assert log.append_fetched(AppendRecords(4, 3, bad), 10) == LogAppended(4, refused=True)
    assert "wrong checksum" in caplog.text
    assert not log.append_fetched(AppendRecords(4, 3, _batch(4, 2) + bad), 10).refused
