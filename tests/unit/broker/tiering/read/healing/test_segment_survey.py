"""A survey finds what is corrected, what is lost, and what is wrong with an index."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.read.healing.segment_survey import DamagedSegmentError, SoundSpan, survey_segment
from crabka.formats.offset_index import OffsetIndex
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from tests.support.faults.tier_rot import flip_object
from tests.support.storage.small import append, make_batch
from tests.support.tiers.remote_reading import TierWorld

LIMIT = 1 << 20
SIZE = len(make_batch(2, value_bytes=60))


def one_segment(world: TierWorld) -> tuple[RemoteLogSegmentMetadata, OffsetIndex]:
    """Return a segment of eight batches of two records."""
    for _ in range(8):
        append(world.log, make_batch(2, value_bytes=60))
    world.log.roll(0)
    append(world.log, make_batch(1))
    segment = world.tier()[0]
    index = OffsetIndex.decode(0, world.storage.fetch_index(segment, IndexType.OFFSET))
    assert len(index) > 2
    return segment, index


def test_a_whole_segment_has_nothing_to_report() -> None:
    with TierWorld() as world:
        segment, index = one_segment(world)
        survey = survey_segment(world.storage, segment, index, LIMIT)
        assert survey[1:] == ((), (), False, "")
        assert survey.span_of(5, 8 * SIZE) == SoundSpan(0, 0, 8 * SIZE)
        assert survey.offsets.entries()


def test_spans_end_where_something_is_lost() -> None:
    with TierWorld() as world:
        segment, index = one_segment(world)
        flip_object((world.storage, world.fs), segment, SIZE + 70)
        for number in (3, 6):
            for place in (70, 75, 80):
                flip_object((world.storage, world.fs), segment, number * SIZE + place)
        survey = survey_segment(world.storage, segment, index, LIMIT)
        assert [each.offset for each in survey.corrected] == [2]
        assert [(each.offset, each.end_offset) for each in survey.lost] == [(6, 8), (12, 14)]
        assert survey.index_fault == ""
        assert survey.span_of(2, 8 * SIZE) == SoundSpan(0, 0, 3 * SIZE)
        assert survey.span_of(9, 8 * SIZE) == SoundSpan(4 * SIZE, 8, 6 * SIZE)
        assert survey.span_of(14, 8 * SIZE) == SoundSpan(7 * SIZE, 14, 8 * SIZE)
        for offset in (6, 7, 12, 13):
            with pytest.raises(DamagedSegmentError):
                survey.span_of(offset, 8 * SIZE)


def test_any_entry_of_an_index_that_is_not_true_is_a_fault() -> None:
    with TierWorld() as world:
        segment, index = one_segment(world)
        data = index.encode()
        for position in range(len(data)):
            for bit in range(8):
                damaged = bytearray(data)
                damaged[position] ^= 1 << bit
                wrong = undecoded(bytes(damaged))
                assert survey_segment(world.storage, segment, wrong, LIMIT).index_fault, (position, bit)


def undecoded(data: bytes) -> OffsetIndex:
    """Return an index as its bytes say, whether they rise or not."""
    index = OffsetIndex(0)
    for start in range(0, len(data), 8):
        offset, position = int.from_bytes(data[start : start + 4]), int.from_bytes(data[start + 4 : start + 8])
        index.append(offset, position)
    return index


def test_an_entry_may_name_the_end_of_several_batches() -> None:
    with TierWorld() as world:
        segment, _ = one_segment(world)
        index = OffsetIndex(0)
        index.append(7, 2 * SIZE)
        assert survey_segment(world.storage, segment, index, LIMIT).index_fault == ""
