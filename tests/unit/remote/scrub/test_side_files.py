"""Leader epochs and producer snapshots beside a log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.formats.producer_snapshot import ProducerRow, encode_producers
from crabka.remote.scrub.side_files import check_epoch_checkpoint, check_producer_snapshot
from tests.support.tiers.planted import two_segments

SEGMENT = two_segments().segments[1]


def snapshot(*last_offsets: int) -> bytes:
    return encode_producers([ProducerRow(7, 0, 0, offset, 0, 1, 0, -1) for offset in last_offsets])


def epochs_of(data: bytes) -> list[str]:
    reported: list[str] = []
    check_epoch_checkpoint(data, SEGMENT, reported.append)
    return reported


def producers_of(data: bytes) -> list[str]:
    reported: list[str] = []
    check_producer_snapshot(data, SEGMENT, reported.append)
    return reported


def test_a_checkpoint_that_agrees_with_the_metadata_is_fine() -> None:
    assert epochs_of(b"0\n2\n0 0\n2 45\n") == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no header"),
        (b"1\n0\n", "version is 1"),
        (b"0\nx\n", "no header"),
        (b"0\n2\n0 0\n", "1 entries instead of 2"),
        (b"0\n1\n0 0 0\n", "without 2 words"),
        (b"0\n1\n0 \xff\n", "not ASCII"),
        (b"0\n2\n2 45\n0 50\n", "overlap"),
        (b"0\n2\n0 45\n2 45\n", "overlap"),
        (b"0\n2\n0 0\n2 50\n", "it says 0 from 30, 2 from 50 of the segment, the metadata 0 from 30, 2 from 45"),
    ],
)
def test_a_wrong_checkpoint_is_found(data: bytes, words: str) -> None:
    (found,) = epochs_of(data)
    assert words in found


def test_a_snapshot_is_fine_if_its_producers_wrote_before_the_end() -> None:
    assert producers_of(snapshot()) == []
    assert producers_of(snapshot(10, 59)) == []


def test_every_flipped_bit_of_a_snapshot_is_found() -> None:
    data = snapshot(10, 59)
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        assert producers_of(bytes(spoiled)), bit


def test_a_snapshot_of_another_offset_is_found() -> None:
    assert producers_of(snapshot(10, 60)) == ["producer 7 wrote offset 60, after the end 59"]
    reported: list[str] = []
    check_producer_snapshot(snapshot(59), replace(SEGMENT, end_offset=58), reported.append)
    assert len(reported) == 1


def test_a_cut_snapshot_is_found() -> None:
    assert producers_of(b"\0\1") == ["its 2 bytes are too few for a producer snapshot"]
