from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.offset_index import OffsetIndex
from crabka.records.header import iter_headers
from tests.support.tiers.planted import batches, offset_index


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
    assert index().position_after(offset) == position


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


@pytest.mark.parametrize("padding", [b"", bytes(80)])
def test_positions_around_a_range_hold_all_of_its_batches(padding: bytes) -> None:
    log = batches(100, 8)  # eight batches of five records
    found = OffsetIndex.decode(100, offset_index(log) + padding, "x")
    positions = [position for position, _ in iter_headers(log)]
    for start in range(100, 141):
        for end in range(start + 1, 141):
            first, last = found.floor_position(start), found.position_after(end - 1) or len(log)
            held = {h.base_offset for p, h in iter_headers(log) if first <= p < last}
            wanted = {h.base_offset for _, h in iter_headers(log) if h.last_offset >= start and h.base_offset < end}
            assert first in positions
            assert last in (*positions, len(log))
            assert wanted <= held
    assert found.floor_position(125) > 0
    assert found.position_after(109) is not None


@pytest.mark.parametrize(("entry", "byte"), [(1, 0), (1, 3), (2, 4), (0, 5)])
def test_a_flipped_byte_that_breaks_the_order_is_found(entry: int, byte: int) -> None:
    data = bytearray(offset_index(batches(100, 8)))
    data[8 * entry + byte] ^= 0xF0
    with pytest.raises(CorruptDataError, match=r"^x: its entries do not rise"):
        OffsetIndex.decode(100, data, "x")
