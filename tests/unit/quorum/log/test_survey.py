from __future__ import annotations

import pytest

from crabka.formats.file_names import offset_name
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.log.survey import segment_bases, survey_log
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing.memory_file_system import MemoryFileSystem


def batch(base: int, epoch: int = 1) -> bytes:
    return build_batch([Record(base, 5, None, encode_record(NoOpRecord()))], base_offset=base, leader_epoch=epoch)


SIZE = len(batch(0))


def disk(*bases: int, count: int = 3) -> MemoryFileSystem:
    """Segments of so many batches each."""
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    for base in bases:
        file = fs.open(f"/m/{offset_name(base)}.log", create=True)
        file.pwritev([batch(offset, 1 + offset // 4) for offset in range(base, base + count)], 0)
        file.close()
    return fs


def flip(fs: MemoryFileSystem, base: int, position: int) -> None:
    fs.open(f"/m/{offset_name(base)}.log").pwritev([b"\xff"], position)


def test_a_whole_log() -> None:
    survey = survey_log(disk(0, 3, 6), "/m")
    assert (survey.segments, survey.end_offset) == ([(0, 3 * SIZE), (3, 3 * SIZE), (6, 3 * SIZE)], 9)
    assert (survey.epochs.entries, survey.damage, survey.sealed_end) == ([(1, 0), (2, 4), (3, 8)], None, None)


def test_an_empty_directory() -> None:
    survey = survey_log(disk(), "/m")
    assert (survey.segments, survey.end_offset, survey.damage) == ([], 0, None)


@pytest.mark.parametrize(
    ("base", "position", "end_offset", "lost", "sealed_end"),
    [(6, SIZE + 65, 7, 2 * SIZE, None), (3, 2 * SIZE + 65, 5, 4 * SIZE, (6, 2)), (0, 65, 0, 9 * SIZE, (6, 0))],
)
def test_damage_is_found_in_every_segment(
    base: int, position: int, end_offset: int, lost: int, sealed_end: tuple[int, int] | None
) -> None:
    fs = disk(0, 3, 6)
    flip(fs, base, position)
    survey = survey_log(fs, "/m")
    assert survey.damage is not None
    assert (survey.end_offset, survey.damage.size_bytes, survey.sealed_end) == (end_offset, lost, sealed_end)
    assert "wrong checksum" in str(survey.damage)
    assert survey.lost_segments == [other for other in segment_bases(fs, "/m") if other > base]


def test_a_tail_that_is_cut_short() -> None:
    fs = disk(0)
    fs.open("/m/00000000000000000000.log").truncate(3 * SIZE - 4)
    survey = survey_log(fs, "/m")
    assert survey.damage is not None
    assert (survey.end_offset, survey.damage.position, survey.damage.size_bytes) == (2, 2 * SIZE, SIZE - 4)
    assert "truncated" in survey.damage.reason


def test_a_gap_ends_the_log_unless_a_snapshot_covers_it() -> None:
    fs = disk(0, 6)
    survey = survey_log(fs, "/m")
    assert (survey.end_offset, survey.lost_segments) == (3, [6])
    survey = survey_log(fs, "/m", start_offset=7)
    assert (survey.segments, survey.covered_segments, survey.damage) == ([(6, 3 * SIZE)], [0], None)
    assert survey.end_offset == 9


def test_a_log_that_nothing_leads_up_to_is_lost_as_a_whole() -> None:
    fs = disk(0, 3, 6)
    fs.unlink("/m/00000000000000000000.log")
    survey = survey_log(fs, "/m", 1)
    assert survey.sealed_end == (9, 3)
    assert (survey.segments, survey.end_offset, survey.epochs.entries, survey.control) == ([], 1, [], [])
    assert (survey.lost_segments, survey.sealed_end) == (segment_bases(fs, "/m"), survey.unreachable_end)
    assert survey.damage is not None
    assert survey.damage.size_bytes == sum(fs.stat(f"/m/{base:020d}.log").size_bytes for base in survey.lost_segments)
