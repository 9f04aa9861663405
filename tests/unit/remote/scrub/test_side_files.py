"""Leader epochs and producer snapshots beside a log."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from crc32c import crc32c

from crabka.log.producers.producer_state import ProducerEntry
from crabka.log.producers.snapshots import encode_snapshot
from crabka.remote.scrub.side_files import (
    check_epoch_checkpoint,
    check_producer_snapshot,
    cut_epochs,
    epoch_at,
    epochs_rise,
    format_epochs,
    histories_agree,
    parse_epoch_checkpoint,
    parse_open_transactions,
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


def test_the_epoch_of_an_offset_is_the_last_that_began() -> None:
    epochs = ((1, 10), (3, 20))
    assert [epoch_at(epochs, offset) for offset in (9, 10, 19, 20, 99)] == [None, 1, 1, 3, 3]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (((0, 0), (1, 10)), ((0, 0), (1, 10), (2, 45))),
        (((0, 0), (1, 10), (2, 45)), ((1, 15), (2, 45), (3, 60))),  # records up to 14 were deleted between the copies
        (((0, 0), (1, 20)), ((0, 0), (2, 15))),  # an unclean election
        (((0, 0), (1, 10)), ((0, 15), (2, 45))),  # one and records deleted after it
        (((0, 0),), ((4, 100),)),
    ],
)
def test_histories_may_differ_in_their_starts_and_ends(
    a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]
) -> None:
    assert histories_agree(a, b)
    assert histories_agree(b, a)


@pytest.mark.parametrize(
    "wrong",
    [
        ((0, 0), (1, 18), (4, 45)),
        ((0, 0), (3, 10), (4, 45)),
        ((0, 0), (4, 45)),
        ((0, 0), (1, 10), (4, 46)),
        ((0, 0), (1, 10), (2, 30), (4, 45)),
        ((1, 5), (4, 45)),
    ],
)
def test_histories_agree_before_an_epoch_that_both_know(wrong: tuple[tuple[int, int], ...]) -> None:
    true = ((0, 0), (1, 10), (4, 45), (6, 70))
    assert not histories_agree(wrong, true)
    assert not histories_agree(true, wrong)


def test_open_transactions_are_those_with_a_first_offset() -> None:
    entries = [ProducerEntry(7, 0), ProducerEntry(8, 0)]
    entries[1].txn_first_offset = 40
    assert parse_open_transactions(encode_snapshot(entries)) == {8: 40}
    with pytest.raises(ValueError, match="too few"):
        parse_open_transactions(b"")
