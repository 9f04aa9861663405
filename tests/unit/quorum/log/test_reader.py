from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.log.metadata_log import MetadataLog
from crabka.quorum.log.reader import batch_fault
from crabka.quorum.settings import MetadataLogSettings
from crabka.records.builder import build_batch
from crabka.records.header import iter_headers, parse_header
from crabka.records.record import Record
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.faults.rotting import flip

PATH = "/m/00000000000000000000.log"


def batch(base_offset: int, epoch: int = 1) -> bytes:
    record = Record(base_offset, 10, None, encode_record(NoOpRecord()))
    return build_batch([record], base_offset=base_offset, leader_epoch=epoch)


SIZE = len(batch(0))


def log_of(count: int, segment_bytes: int = 1000) -> tuple[MemoryFileSystem, MetadataLog]:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    log = MetadataLog.open(fs, "/m", MetadataLogSettings(segment_bytes=segment_bytes), start_offset=0, now_ms=1)
    log.write([batch(offset, 1 + offset // 3) for offset in range(count)], 1)
    return fs, log


@pytest.mark.parametrize("at", range(SIZE))
def test_no_damaged_batch_is_served(at: int) -> None:
    fs, log = log_of(6)
    log._files.recent.truncate(0)
    flip(fs, PATH, 2 * SIZE + at)
    with pytest.raises(CorruptDataError, match=PATH):
        log.read_slice(2, 10_000)
    # What lies before it is served, as far as damage leaves its place known.
    served = log.read_slice(0, 10_000)
    assert [header.base_offset for _, header in iter_headers(served)] == [0, 1]


def test_behind_the_end_there_is_nothing() -> None:
    _, log = log_of(4, segment_bytes=150)
    assert log.read_slice(4, 100) == b""
    assert log.read_slice(3, 100) == batch(3, 2)


def test_the_first_batch_is_served_however_large_it_is() -> None:
    _, log = log_of(3)
    assert log.read_slice(1, 1) == batch(1)


@pytest.mark.parametrize(("offset", "epoch", "text"), [(4, 2, "offset 4 instead of 3"), (3, 5, "epoch 5 instead of 2")])
def test_offset_and_epoch_must_be_the_known_ones(offset: int, epoch: int, text: str) -> None:
    data = batch(offset, epoch)
    assert text in batch_fault(data, 0, parse_header(data), 3, LeaderEpochCache([(1, 0), (2, 3)]))
    right = batch(3, 2)
    assert batch_fault(right, 0, parse_header(right), 3, LeaderEpochCache([(1, 0), (2, 3)])) == ""


@pytest.mark.parametrize("at", range(0, SIZE, 5))
def test_damage_to_a_batch_does_not_hide_those_after_it(at: int) -> None:
    fs, log = log_of(6)
    flip(fs, PATH, at, 4)
    assert log.read_slice(1, 1) == batch(1)
    assert log.read_slice(5, 1) == batch(5, 2)
    assert log.restored_count == 0
    log.write([batch(6, 3)], 1)
    log.roll(1)
    log.write([batch(7, 3)], 1)
    assert log.read_slice(6, 1) == batch(6, 3)
    assert log.read_slice(7, 1) == batch(7, 3)


@pytest.mark.parametrize("at", [4, 10, SIZE + 4])
def test_a_log_is_not_cut_where_damage_hides_the_place(at: int) -> None:
    fs, log = log_of(6)
    log.begin_flush().run()
    before = log.durable_end
    flip(fs, PATH, at, 4)
    with pytest.raises(CorruptDataError, match="damage hides"):
        log.truncate(3, 1)
    assert (log.end_offset, log.durable_end, fs.stat(PATH).size_bytes) == (6, before, 6 * SIZE)


@pytest.mark.parametrize("at", range(SIZE))
def test_a_recent_batch_is_written_back_when_it_is_read(at: int, caplog: pytest.LogCaptureFixture) -> None:
    fs, log = log_of(6)
    whole = read_file(fs, PATH)
    flip(fs, PATH, 2 * SIZE + at)
    assert log.read_slice(2, 1) == batch(2)
    assert read_file(fs, PATH) == whole
    assert log.restored_count == 1
    assert f"{PATH} was damaged at position {2 * SIZE}, offset 2" in caplog.text


def test_recent_batches_are_those_of_the_log_after_cuts_and_starts() -> None:
    fs, log = log_of(6)
    log.truncate(4, 1)
    log.write([batch(4, 9)], 1)
    log.close()
    log = MetadataLog.open(fs, "/m", MetadataLogSettings(), start_offset=0, now_ms=1)
    flip(fs, PATH, 4 * SIZE + 70)
    assert log.restore(log._files.segments) == [4]
    assert log.read_slice(4, 1) == batch(4, 9)
    log.restart_at(OffsetAndEpoch(9, 9), 1)
    log.write([batch(9, 9)], 1)
    assert log.read_slice(9, 1) == batch(9, 9)
