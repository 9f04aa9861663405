from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.offset_index import OffsetIndex


def index() -> OffsetIndex:
    result = OffsetIndex(1000)
    for offset, position in ((1004, 444), (1015, 1194), (1017, 1468)):
        result.append(offset, position)
    return result


def test_bytes_are_relative_offset_and_position() -> None:
    assert index().encode(1) == bytes.fromhex("0000000f000004aa00000011000005bc")
    assert OffsetIndex.decode(1000, index().encode()).entries() == [(1004, 444), (1015, 1194), (1017, 1468)]


@pytest.mark.parametrize(
    ("offset", "position"), [(999, 0), (1003, 0), (1004, 444), (1014, 444), (1017, 1468), (9999, 1468)]
)
def test_floor_is_the_last_batch_that_ends_at_or_before(offset: int, position: int) -> None:
    assert index().floor_position(offset) == position


@pytest.mark.parametrize(
    ("offset", "position"), [(900, 1194), (1004, 1194), (1005, 1468), (1015, 1468), (1016, None), (1018, None)]
)
def test_position_behind_an_offset(offset: int, position: int | None) -> None:
    assert index().position_behind(offset) == position


@pytest.mark.parametrize(
    ("position", "start"), [(0, 0), (1, 0), (1195, 1194), (1468, 1194), (1469, 1468), (9999, 1468)]
)
def test_the_last_indexed_batch_before_a_position(position: int, start: int) -> None:
    assert index().batch_start_before(position) == start


def test_padding_of_an_untrimmed_file_is_ignored() -> None:
    assert len(OffsetIndex.decode(1000, index().encode() + bytes(80))) == 3
    assert len(OffsetIndex.decode(1000, bytes(80))) == 0


def test_last_entry() -> None:
    assert (index().last_offset, index().last_position) == (1017, 1468)
    assert (OffsetIndex(7).last_offset, OffsetIndex(7).last_position) == (6, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 7,
        bytes.fromhex("00000005 00000010 00000004 00000020"),
        bytes.fromhex("00000005 00000010 00000006 00000010"),
    ],
)
def test_damaged_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        OffsetIndex.decode(0, data, "path")


def test_truncating_drops_entries_at_or_above() -> None:
    truncated = index()
    truncated.truncate(1015)
    assert truncated.entries() == [(1004, 444)]
    truncated.truncate(0)
    assert len(truncated) == 0
