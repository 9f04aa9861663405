"""All that a segment consists of, with damaged stretches corrected where that is possible."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.read.healing import segment_walk
from crabka.broker.tiering.read.healing.segment_walk import DamagedStretch, SegmentObject, batches_of, walk_segment
from crabka.remote.errors import SegmentNotFoundError
from crabka.remote.segments import RemoteLogSegmentMetadata
from tests.support.faults.tier_rot import flip_object
from tests.support.storage.small import append, make_batch
from tests.support.tiers.remote_reading import TierWorld, directory_tier

LIMIT = 1 << 20


def one_segment(world: TierWorld) -> tuple[RemoteLogSegmentMetadata, bytes]:
    for number in range(6):
        append(world.log, make_batch(2, value_bytes=60), leader_epoch=number // 2)
    world.log.roll(0)
    append(world.log, make_batch(1))
    segment = world.tier()[0]
    return segment, bytes(world.storage.fetch_log_segment(segment, 0))


def test_a_whole_segment_is_its_batches() -> None:
    with TierWorld() as world:
        segment, right = one_segment(world)
        pieces = list(walk_segment(world.storage, segment, LIMIT))
        assert not [piece for piece in pieces if isinstance(piece, DamagedStretch)]
        found = [batch for piece in pieces for batch in batches_of(piece)]
        assert b"".join(data for _, _, data in found) == right
        assert [position for position, _, _ in found] == [n * len(right) // 6 for n in range(6)]


def test_every_wrong_byte_of_a_header_is_corrected() -> None:
    with TierWorld(storage=directory_tier) as world:
        segment, right = one_segment(world)
        for position in range(len(right) // 6 * 2, len(right) // 6 * 2 + 61):
            flip_object((world.storage, world.fs), segment, position)
            pieces = list(walk_segment(world.storage, segment, LIMIT))
            (stretch,) = [piece for piece in pieces if isinstance(piece, DamagedStretch)]
            assert [change.position for change in stretch.changes] == [position]
            assert b"".join(data for piece in pieces for _, _, data in batches_of(piece)) == right
            flip_object((world.storage, world.fs), segment, position)


def test_what_is_lost_has_no_batches() -> None:
    with TierWorld() as world:
        segment, right = one_segment(world)
        for place in (70, 80, 90):
            flip_object((world.storage, world.fs), segment, len(right) // 6 + place, 5)
        (stretch,) = [each for each in walk_segment(world.storage, segment, LIMIT) if isinstance(each, DamagedStretch)]
        assert stretch[:4] == (len(right) // 6, len(right) // 3, 2, 4)
        assert batches_of(stretch) == []


def test_an_object_is_read_in_large_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_walk, "PIECE_BYTES", 300)
    with TierWorld() as world:
        segment, right = one_segment(world)
        content = SegmentObject(world.storage, segment)
        for position, length in ((0, 10), (250, 100), (5, 500), (len(right) - 3, 100), (len(right), 5)):
            assert bytes(content.pread(length, position)) == right[position : position + length]
        world.storage.delete_log_segment_data(segment)
        with pytest.raises(SegmentNotFoundError):
            SegmentObject(world.storage, segment).pread(1, 0)
