from __future__ import annotations

import struct

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.time_index import TimeIndex, TimeIndexEntry
from tests.support.recorded.files import GOLDEN
from tests.support.tiers.planted import FIRST_TIMESTAMP_MS, batches, time_index


def index() -> TimeIndex:
    result = TimeIndex(100)
    for timestamp, offset in ((10, 104), (20, 110), (30, 117)):
        result.maybe_append(timestamp, offset)
    return result


def test_kafkas_file_reads_and_writes_back_equal() -> None:
    path = GOLDEN / "single/d2/txn-0/00000000000000000074.timeindex"
    times = TimeIndex.decode(74, path.read_bytes())
    assert times.entries() == [
        TimeIndexEntry(1794773736695, 78),
        TimeIndexEntry(1794773736742, 91),
        TimeIndexEntry(1794773736749, 92),
    ]
    assert times.encode() == path.read_bytes()


def test_only_larger_timestamps_are_added() -> None:
    times = index()
    times.maybe_append(30, 120)
    times.maybe_append(5, 121)
    assert times.last == TimeIndexEntry(30, 117)
    assert len(times) == 3


@pytest.mark.parametrize(
    ("timestamp", "entry"), [(9, (-1, 100)), (10, (10, 104)), (19, (10, 104)), (20, (20, 110)), (99, (30, 117))]
)
def test_floor_is_the_last_entry_not_above(timestamp: int, entry: tuple[int, int]) -> None:
    assert index().floor(timestamp) == entry


def test_an_empty_index_ends_before_all_time() -> None:
    assert TimeIndex(5).last == TimeIndexEntry(-1, 5)


def test_padding_of_an_untrimmed_file_is_ignored() -> None:
    assert TimeIndex.decode(100, index().encode() + bytes(120)).entries() == index().entries()
    assert len(TimeIndex.decode(100, bytes(120))) == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 11,
        bytes.fromhex("0000000000000005 00000001 0000000000000005 00000002"),
        bytes.fromhex("0000000000000005 00000002 0000000000000006 00000001"),
    ],
)
def test_damaged_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        TimeIndex.decode(0, data, "path")


def test_truncating_drops_entries_at_or_above() -> None:
    times = index()
    times.truncate(110)
    assert times.entries() == [TimeIndexEntry(10, 104)]
    assert times.encode(1) == b""


def test_offsets_below_the_first_that_can_match_are_older() -> None:
    times = TimeIndex.decode(100, time_index(batches(100, 8)))
    for timestamp in range(FIRST_TIMESTAMP_MS + 95, FIRST_TIMESTAMP_MS + 145):
        start = times.first_offset_since(timestamp)
        first_match = max(timestamp - FIRST_TIMESTAMP_MS, 100)
        assert 100 <= start <= max(first_match, 140)
        if first_match < 140:
            assert start <= first_match
    assert times.first_offset_since(FIRST_TIMESTAMP_MS + 130) > 110
    assert times.last.timestamp == FIRST_TIMESTAMP_MS + 139
    assert TimeIndex(100).first_offset_since(0) == 100


@pytest.mark.parametrize("byte", [7, 10])
def test_a_flipped_byte_that_breaks_the_order_is_found(byte: int) -> None:
    data = bytearray(time_index(batches(100, 8)))
    data[12 + byte] ^= 0x80
    with pytest.raises(CorruptDataError, match=r"^x: its entries do not rise"):
        TimeIndex.decode(100, data, "x")


def test_an_entry_may_repeat_an_offset() -> None:
    times = TimeIndex.decode(100, struct.pack(">qIqI", 1_000, 4, 2_000, 4))
    assert times.first_offset_since(1_500) == 105
