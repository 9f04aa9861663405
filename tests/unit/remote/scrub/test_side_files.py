"""Leader epochs and producer snapshots beside a log."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from crc32c import crc32c

from crabka.remote.scrub.side_files import (
    check_epoch_checkpoint,
    check_producer_snapshot,
    cut_epochs,
    epochs_rise,
    format_epochs,
    parse_epoch_checkpoint,
)
from tests.support.planted_tier import two_segments

SEGMENT = two_segments().segments[1]


def snapshot(*last_offsets: int) -> bytes:
    body = struct.pack(">i", len(last_offsets))
    body += b"".join(struct.pack(">qhiqiqiq", 7, 0, 0, offset, 0, 1, 0, -1) for offset in last_offsets)
    return struct.pack(">hI", 1, crc32c(body)) + body


def epochs_of(data: bytes) -> list[str]:
    reported: list[str] = []
    check_epoch_checkpoint(data, SEGMENT, reported.append)
    return reported


def producers_of(data: bytes) -> list[str]:
    reported: list[str] = []
    check_producer_snapshot(data, SEGMENT, reported.append)
    return reported


def test_epochs_of_the_whole_history_are_cut_to_the_segment() -> None:
    assert cut_epochs(((0, 0), (2, 45)), 30, 59) == ((0, 30), (2, 45))
    assert cut_epochs(((0, 0), (2, 45)), 50, 59) == ((2, 50),)
    assert cut_epochs(((0, 0), (2, 45)), 0, 44) == ((0, 0),)
    assert cut_epochs(((0, 61),), 32, 63) == ((0, 61),), "the log start was raised before the copy"


def test_a_checkpoint_that_agrees_with_the_metadata_is_fine() -> None:
    assert epochs_of(b"0\n2\n0 0\n2 45\n") == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no header"),
        (b"1\n0\n", "no header"),
        (b"0\nx\n", "no header"),
        (b"0\n2\n0 0\n", "1 entries instead of 2"),
        (b"0\n1\n0 0 0\n", "not `epoch offset`"),
        (b"0\n1\n0 \xff\n", "not `epoch offset`"),
        (b"0\n2\n2 45\n0 50\n", "overlap"),
        (b"0\n2\n0 45\n2 45\n", "overlap"),
        (b"0\n2\n0 0\n2 50\n", "it says 0 from 30, 2 from 50 of the segment, the metadata 0 from 30, 2 from 45"),
    ],
)
def test_a_wrong_checkpoint_is_found(data: bytes, words: str) -> None:
    (found,) = epochs_of(data)
    assert words in found


def test_epochs_are_parsed_and_printed() -> None:
    assert parse_epoch_checkpoint(b"0\n2\n0 0\n2 45\n") == ((0, 0), (2, 45))
    assert format_epochs(()) == "none"
    assert epochs_rise(())
    assert epochs_rise(((0, 5),))


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
    assert producers_of(snapshot(10, 60)) == ["producer 7 wrote offset 60, behind the end 59"]
    reported: list[str] = []
    check_producer_snapshot(snapshot(59), replace(SEGMENT, end_offset=58), reported.append)
    assert len(reported) == 1


def test_a_cut_snapshot_is_found() -> None:
    assert producers_of(b"\0\1")
    body = struct.pack(">i", 3)
    assert producers_of(struct.pack(">hI", 1, crc32c(body)) + body) == ["its 10 bytes do not hold 3 producers"]
    assert producers_of(struct.pack(">hI", 2, crc32c(body)) + body) == ["its version is 2, not 1"]
