from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import offset_name
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.log.metadata_log import MetadataLog
from crabka.quorum.log.survey import LogSurvey, segment_bases
from crabka.quorum.settings import MetadataLogSettings
from crabka.records.builder import build_batch
from crabka.records.header import parse_header
from crabka.records.record import Record
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.faults.rotting import flip
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.metadata_logs import QUORUM, SINGLE

SMALL = MetadataLogSettings(segment_bytes=300)


def _disk() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    fs.fsync_dir("/")
    return fs


def _batch(base_offset: int, count: int = 1, epoch: int = 1, timestamp: int = 10) -> bytes:
    value = encode_record(NoOpRecord())
    records = [Record(base_offset + index, timestamp, None, value) for index in range(count)]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


def _open(fs: MemoryFileSystem, start_offset: int = 0, settings: MetadataLogSettings = SMALL) -> MetadataLog:
    return MetadataLog.open(fs, "/m", settings, start_offset=start_offset, now_ms=10)


def _offsets(log: MetadataLog, start: int = 0) -> list[int]:
    return [batch.header.base_offset for batch in log.read(start)]


def _append(log: MetadataLog, batches: list[bytes], *, now_ms: int) -> None:
    """Write batches and make them durable."""
    log.write(batches, now_ms)
    assert log.begin_flush().run() == log.end_offset


def test_a_new_log_is_empty() -> None:
    log = _open(_disk())
    assert (log.start_offset, log.end_offset, log.last_epoch, log.size_bytes) == (0, 0, -1, 0)
    assert _offsets(log) == []


def test_a_new_log_begins_where_its_snapshot_ends() -> None:
    log = _open(_disk(), start_offset=40)
    assert (log.start_offset, log.end_offset) == (40, 40)


def test_appended_batches_survive_a_crash() -> None:
    fs = _disk()
    log = _open(fs)
    for number in range(12):
        _append(log, [_batch(number)], now_ms=10)
    fs.crash()
    again = _open(fs)
    assert again.end_offset == 12
    assert _offsets(again) == list(range(12))
    assert len(segment_bases(fs, "/m")) == 3


def test_reading_begins_with_the_batch_that_holds_the_offset() -> None:
    log = _open(_disk())
    for number in range(0, 30, 3):
        _append(log, [_batch(number, 3)], now_ms=10)
    assert _offsets(log, 13) == [12, 15, 18, 21, 24, 27]


@pytest.mark.parametrize("torn", range(1, 73, 7))
def test_a_torn_tail_is_cut(torn: int) -> None:
    fs = _disk()
    log = _open(fs, settings=MetadataLogSettings())
    _append(log, [_batch(0), _batch(1)], now_ms=10)
    log.close()
    file = fs.open("/m/00000000000000000000.log")
    whole = file.size()
    file.pwritev([_batch(2)[:torn]], whole)
    again = _open(fs, settings=MetadataLogSettings())
    assert again.end_offset == 2
    assert file.size() == whole
    _append(again, [_batch(2)], now_ms=10)
    assert _offsets(again) == [0, 1, 2]


def test_a_batch_with_a_wrong_checksum_ends_the_log() -> None:
    fs = _disk()
    log = _open(fs, settings=MetadataLogSettings())
    _append(log, [_batch(0), _batch(1), _batch(2)], now_ms=10)
    log.close()
    fs.open("/m/00000000000000000000.log").pwritev([b"\xff"], len(_batch(0)) + 65)
    assert _open(fs, settings=MetadataLogSettings()).end_offset == 1


def test_damage_in_a_sealed_segment_is_reported() -> None:
    fs = _disk()
    log = _open(fs)
    for number in range(12):
        _append(log, [_batch(number)], now_ms=10)
    fs.open("/m/00000000000000000000.log").pwritev([b"\xff"], 65)
    with pytest.raises(CorruptDataError):
        _offsets(log)


def _three_segments(fs: MemoryFileSystem) -> MetadataLog:
    """Three segments of four batches."""
    log = _open(fs)
    for number in range(12):
        _append(log, [_batch(number)], now_ms=10)
    assert segment_bases(fs, "/m") == [0, 4, 8]
    return log


def _flip(fs: MemoryFileSystem, base: int, position: int = 65) -> None:
    file = fs.open(f"/m/{offset_name(base)}.log")
    (value,) = file.pread(1, position)
    file.pwritev([bytes([value ^ 1])], position)
    file.fsync()
    file.close()


def test_damage_in_the_middle_cuts_there_with_a_warning_and_leaves_the_durable_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = _disk()
    _three_segments(fs).close()
    _flip(fs, 4, 65 + len(_batch(4)))
    log = _open(fs)
    assert (_offsets(log), segment_bases(fs, "/m")) == ([0, 1, 2, 3, 4], [0, 4])
    assert (log.end, log.durable_end) == ((5, 1), (12, 1))
    lost = 3 * len(_batch(5)) + 4 * len(_batch(8))
    assert (log.cut_count, log.cut_bytes) == (1, lost)
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    for part in ("/m/00000000000000000004.log", "offset 5", "wrong checksum", f"{lost} bytes"):
        assert part in warning
    log.close()
    assert _open(fs).durable_end == (12, 1)


def test_the_note_stays_while_the_log_lacks_entries_and_follows_it_afterwards() -> None:
    fs = _disk()
    _three_segments(fs).close()
    _flip(fs, 8)
    log = _open(fs)
    _append(log, [_batch(8)], now_ms=10)
    assert log.truncate(7, 10) == 7
    assert log.durable_end == (12, 1)
    log.settle()
    assert log.durable_end == (7, 1)
    fs.crash()
    assert _open(fs).durable_end == (7, 1)


def test_the_note_goes_down_before_the_log_is_cut() -> None:
    fs = _disk()
    log = _three_segments(fs)
    assert log.durable_end == (12, 1)
    faulty = fs.clone()
    assert log.truncate(9, 10) == 9
    assert log.durable_end == (9, 1)
    fs.crash()
    assert (_open(fs).end, _open(fs).durable_end) == ((9, 1), (9, 1))
    faulty.crash()
    assert _open(faulty).end == (12, 1)


def test_a_torn_write_is_no_loss() -> None:
    fs = _disk()
    log = _three_segments(fs)
    log.write([_batch(12)], 10)
    fs.crash()
    again = _open(fs)
    assert again.end_offset == 12
    assert again.durable_end is not None
    assert again.durable_end.recency <= again.end.recency


def test_damage_in_a_sealed_segment_is_a_loss_even_without_a_note() -> None:
    fs = _disk()
    _three_segments(fs).close()
    fs.unlink("/m/crabka-durable-end")
    _flip(fs, 0)
    log = _open(fs)
    assert (log.end_offset, log.durable_end) == (0, (8, 0))


def test_damaged_segments_that_a_snapshot_covers_are_left_out() -> None:
    fs = _disk()
    _three_segments(fs).close()
    _flip(fs, 0)
    log = _open(fs, start_offset=9)
    assert (log.start_offset, log.end_offset, log.durable_end) == (4, 12, (12, 1))
    assert segment_bases(fs, "/m") == [4, 8]


def test_a_log_may_be_refused_before_anything_is_changed() -> None:
    fs = _disk()
    _three_segments(fs).close()
    _flip(fs, 4)
    before = {name: read_file(fs, f"/m/{name}") for name in fs.listdir("/m")}

    def refuse(survey: LogSurvey, noted: OffsetAndEpoch | None) -> None:
        assert (survey.end_offset, noted) == (4, (12, 1))
        raise CorruptDataError("/m", "no")

    with pytest.raises(CorruptDataError):
        MetadataLog.open(fs, "/m", SMALL, start_offset=0, accept=refuse, now_ms=10)
    assert before == {name: read_file(fs, f"/m/{name}") for name in fs.listdir("/m")}


def test_a_damaged_epoch_checkpoint_is_made_anew() -> None:
    fs = _disk()
    _three_segments(fs).close()
    fs.open("/m/leader-epoch-checkpoint").pwritev([b"garbage"], 0)
    log = _open(fs)
    assert log.last_epoch == 1
    log.close()
    assert decode_epochs(read_file(fs, "/m/leader-epoch-checkpoint")) == [(1, 0)]


def test_a_missing_segment_ends_the_log() -> None:
    fs = _disk()
    _three_segments(fs).close()
    fs.unlink(f"/m/{offset_name(4)}.log")
    log = _open(fs)
    assert (_offsets(log), log.durable_end) == ([0, 1, 2, 3], (12, 1))


def test_segments_roll_by_size_and_by_time() -> None:
    fs = _disk()
    log = _open(fs, settings=MetadataLogSettings(segment_ms=1000))
    _append(log, [_batch(0, timestamp=10)], now_ms=10)
    _append(log, [_batch(1, timestamp=1010)], now_ms=1010)
    _append(log, [_batch(2, timestamp=1011)], now_ms=1011)
    assert segment_bases(fs, "/m") == [0, 2]
    assert fs.exists("/m/00000000000000000002.snapshot")


def test_old_segments_go_with_all_their_files() -> None:
    fs = _disk()
    log = _open(fs)
    for number in range(12):
        _append(log, [_batch(number, epoch=1 + number // 6)], now_ms=10)
    bases = segment_bases(fs, "/m")
    assert log.delete_before(bases[1] - 1) == 0
    assert log.delete_before(bases[2]) == 2
    assert log.start_offset == bases[2]
    assert not [name for name in fs.listdir("/m") if name.startswith(offset_name(bases[1]))]
    assert log.delete_before(1_000) == 0
    assert _offsets(log, bases[2]) == list(range(bases[2], 12))


def test_leader_epochs_are_kept_as_kafka_keeps_them() -> None:
    fs = _disk()
    log = _open(fs)
    _append(log, [_batch(0, 3, epoch=1)], now_ms=10)
    _append(log, [_batch(3, epoch=2)], now_ms=10)
    log.close()
    assert fs.open("/m/leader-epoch-checkpoint").pread(99, 0) == b"0\n2\n1 0\n2 3\n"
    assert _open(fs).last_epoch == 2


def test_a_clean_close_leaves_indexes_and_an_empty_producer_snapshot() -> None:
    fs = _disk()
    log = _open(fs, settings=MetadataLogSettings())
    _append(log, [_batch(0, 3)], now_ms=10)
    log.close()
    assert (
        fs.open("/m/00000000000000000003.snapshot").pread(99, 0)
        == (SINGLE / "00000000000000000453.snapshot").read_bytes()
    )
    assert fs.open("/m/00000000000000000000.timeindex").size() == 12
    assert fs.open("/m/partition.metadata").pread(99, 0) == (SINGLE / "partition.metadata").read_bytes()


def test_a_log_behind_its_snapshot_starts_over() -> None:
    fs = _disk()
    log = _open(fs)
    _append(log, [_batch(0, 3)], now_ms=10)
    log.close()
    again = _open(fs, start_offset=9)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (9, 9, -1)


@pytest.mark.parametrize("has_note", [True, False])
def test_a_log_that_begins_after_its_snapshot_is_dropped_as_a_loss(
    has_note: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fs = _disk()
    log = _open(fs, start_offset=9)
    _append(log, [_batch(9, epoch=2)], now_ms=10)
    log.close()
    if not has_note:
        fs.unlink("/m/crabka-durable-end")
    again = _open(fs, start_offset=5)
    assert (again.start_offset, again.end_offset, list(again.read(0))) == (5, 5, [])
    assert again.durable_end == OffsetAndEpoch(10, 2)
    assert "starts at offset 9, and no valid file holds the offsets from 5 on" in caplog.text
    again.close()
    assert _open(fs, start_offset=5).durable_end == OffsetAndEpoch(10, 2)


def test_an_end_that_damaged_files_show_counts_where_no_note_says_more() -> None:
    fs = _disk()
    log = MetadataLog.open(fs, "/m", SMALL, start_offset=0, shown_end=OffsetAndEpoch(7, 3), now_ms=10)
    assert (log.end_offset, log.durable_end) == (0, OffsetAndEpoch(7, 3))
    log.close()
    again = MetadataLog.open(fs, "/m", SMALL, start_offset=0, shown_end=OffsetAndEpoch(9, 3), now_ms=10)
    assert again.durable_end == OffsetAndEpoch(7, 3)


@pytest.mark.parametrize("source", [SINGLE, QUORUM[0]], ids=["single", "quorum"])
def test_kafkas_logs_are_opened_without_a_change_to_their_batches(source: Path) -> None:
    fs = copy_to_memory(source, "/m")
    log = _open(fs, settings=MetadataLogSettings())
    assert log.start_offset == 0
    assert log.end_offset == (453 if source == SINGLE else 397)
    log.close()
    for path in source.glob("*.log"):
        assert fs.open(f"/m/{path.name}").pread(1 << 20, 0) == path.read_bytes()


def _filled(fs: MemoryFileSystem, count: int = 12) -> MetadataLog:
    log = _open(fs)
    for number in range(count):
        _append(log, [_batch(number, epoch=1 + number // 4)], now_ms=10)
    return log


def test_written_batches_are_lost_in_a_crash_until_they_are_flushed() -> None:
    fs = _disk()
    log = _filled(fs, 4)
    log.write([_batch(4)], now_ms=10)
    assert log.begin_flush().run() == 5
    log.write([_batch(5)], now_ms=10)
    fs.crash()
    assert _open(fs).end_offset == 5


def test_a_flush_of_a_segment_that_was_sealed_meanwhile_still_counts() -> None:
    fs = _disk()
    log = _open(fs)
    log.write([_batch(0)], now_ms=10)
    flush = log.begin_flush()
    log.write([_batch(number) for number in range(1, 8)], now_ms=10)
    assert flush.run() == 1
    log.begin_flush().run()
    fs.crash()
    assert _offsets(_open(fs)) == list(range(8))


def test_epochs_of_sealed_segments_survive_a_crash() -> None:
    fs = _disk()
    log = _open(fs)
    for number in range(12):
        log.write([_batch(number, epoch=1 + number // 4)], now_ms=10)
    log.begin_flush().run()
    fs.crash()
    again = _open(fs)
    assert [again.epoch_end(epoch) for epoch in range(5)] == [None, (1, 4), (2, 8), (3, 12), (3, 12)]


@pytest.mark.parametrize("end_offset", range(13))
def test_truncation_cuts_across_segments_and_epochs_and_is_durable(end_offset: int) -> None:
    fs = _disk()
    log = _filled(fs)
    assert log.truncate(end_offset, now_ms=10) == end_offset
    fs.crash()
    again = _open(fs)
    for found in (log, again):
        assert _offsets(found) == list(range(end_offset))
        assert found.last_epoch == (1 + (end_offset - 1) // 4 if end_offset else -1)
    _append(again, [_batch(end_offset, epoch=7)], now_ms=10)
    assert again.epoch_end(9) == (7, end_offset + 1)


def test_a_slice_holds_whole_batches_and_at_least_one() -> None:
    log = _filled(_disk())
    size = len(_batch(0))
    assert log.read_slice(2, 1) == _batch(2)
    assert log.read_slice(0, 2 * size) == _batch(0) + _batch(1)
    assert log.read_slice(12, 1000) == b""
    joined, offset = b"", 0
    while piece := log.read_slice(offset, 10_000):
        joined += piece
        offset = len(joined) // size
    assert joined == b"".join(_batch(number, epoch=1 + number // 4) for number in range(12))


def test_a_log_that_contradicts_the_newest_snapshot_is_dropped() -> None:
    fs = _disk()
    _filled(fs)
    log = MetadataLog.open(fs, "/m", SMALL, start_offset=6, start_epoch=2, now_ms=10)
    assert _offsets(log) == list(range(12))
    log = MetadataLog.open(fs, "/m", SMALL, start_offset=6, start_epoch=5, now_ms=10)
    assert (log.start_offset, log.end_offset) == (6, 6)
    assert log.epoch_at(5) is None


def test_a_wrong_index_is_noticed_and_built_anew(caplog: pytest.LogCaptureFixture) -> None:
    fs = _disk()
    settings = MetadataLogSettings(segment_bytes=40_000)
    log = _open(fs, settings=settings)
    for number in range(1000):
        log.write([_batch(number)], 10)
    log.close()
    path = f"/m/{offset_name(0)}.index"
    whole = read_file(fs, path)
    assert len(whole) >= 16
    for position in range(16):
        for mask in (1, 64):
            flip(fs, path, position, mask)
            again = _open(fs, settings=settings)
            for offset in (0, 60, 150, 250, 350):
                assert parse_header(again.read_slice(offset, 1)).base_offset == offset
                assert again.epoch_at(offset) == 1
            again.close()
            _write(fs, path, whole)
    assert "it leads past the batch of offset" in caplog.text


def _write(fs: MemoryFileSystem, path: str, data: bytes) -> None:
    file = fs.open(path)
    file.truncate(0)
    file.pwritev([data], 0)
    file.close()
