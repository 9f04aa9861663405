from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from crabka.errors import CorruptDataError
from crabka.records.header import iter_headers
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.ranges import TierRange
from crabka.spark.plan.splits import tier_ranges
from tests.support.tiers.planted import PlantedTier, batches
from tests.support.tiers.stores import MemoryTierStore, store_of

LOG = batches(0, 40)


def planted() -> tuple[TierPart, MemoryTierStore]:
    tier = PlantedTier()
    segment = tier.add(LOG, [(0, 0)])
    return TierPart(segment, 0, 200), store_of(tier)


def cut(part: TierPart, store: MemoryTierStore, target: int = 1 << 20, records: int | None = None) -> list[TierRange]:
    return tier_ranges(
        [part], SegmentObjects(store), target_bytes=target, max_records=records, aborted_in=lambda *_: None
    )


def offsets_in(each: TierRange) -> list[int]:
    """Return the offsets that the bytes of a range have and that count."""
    headers = [header for position, header in iter_headers(LOG) if each.start_byte <= position < each.end_byte]
    held = [offset for header in headers for offset in range(header.base_offset, header.last_offset + 1)]
    return [offset for offset in held if each.start_offset <= offset < each.end_offset]


def test_a_whole_segment_needs_no_index() -> None:
    part, store = planted()
    (found,) = cut(part, store)
    assert (found.start_byte, found.end_byte, found.object_name) == (0, len(LOG), object_path(part.segment))
    assert store.asked == []


def test_a_part_of_a_segment_is_a_part_of_its_bytes() -> None:
    part, store = planted()
    (found,) = cut(part._replace(start=73, end=91), store)
    assert found.size_bytes < len(LOG) / 3
    assert offsets_in(found) == list(range(73, 91))


def test_a_large_segment_is_cut_at_index_entries() -> None:
    part, store = planted()
    ranges = cut(part, store, len(LOG) // 6)
    assert len(ranges) > 3
    assert [offset for each in ranges for offset in offsets_in(each)] == list(range(200))
    assert [each.end_byte for each in ranges[:-1]] == [each.start_byte for each in ranges[1:]]
    assert [each.end_offset for each in ranges[:-1]] == [each.start_offset for each in ranges[1:]]


def test_a_part_is_cut_within_its_own_bytes() -> None:
    part, store = planted()
    ranges = cut(part._replace(start=33, end=177), store, len(LOG) // 8)
    assert [offset for each in ranges for offset in offsets_in(each)] == list(range(33, 177))


def test_records_per_range_are_limited() -> None:
    part, store = planted()
    ranges = cut(part, store, records=30)
    assert [offset for each in ranges for offset in offsets_in(each)] == list(range(200))
    assert all(each.end_offset - each.start_offset <= 30 for each in ranges)


@pytest.mark.parametrize("records", [None, 20])
def test_no_flipped_bit_of_an_index_hides_offsets(records: int | None) -> None:
    """Wherever a bit of the offset index is wrong, it is reported, or no whole batch of what is wanted is left out."""
    part, store = planted()
    part = part._replace(start=33, end=171)
    key = object_path(part.segment, IndexType.OFFSET)
    whole = store.objects[key]
    found = 0
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << (bit % 8)
        store.objects[key] = bytes(data)
        try:
            ranges = cut(part, store, records=records)
        except CorruptDataError as error:
            found += error.where == key
            continue
        begun = {position: header.base_offset for position, header in iter_headers(LOG)}
        # A range that does not begin with a batch, or with one that is too late, fails when it is read.
        if all(begun.get(each.start_byte, each.end_offset) <= each.start_offset for each in ranges):
            assert [offset for each in ranges for offset in offsets_in(each)] == list(range(33, 171))
    assert found > len(whole) * 4


@pytest.mark.parametrize(("start", "end"), [(33, 200), (0, 171), (0, 200)])
def test_a_segment_without_batches_has_no_ranges(start: int, end: int) -> None:
    part, store = planted()
    empty = replace(part.segment, segment_size_bytes=0)
    part = part._replace(segment=empty, start=start, end=end)
    assert cut(part, store, records=20) == cut(part, store) == []


def test_batches_after_many_ranges_are_asked_once_each() -> None:
    part, store = planted()
    ranges = cut(part, store, records=3)
    ends = {each.end_byte for each in ranges} - {part.segment.segment_size_bytes}
    assert store.asked.count(object_path(part.segment)) == len(ends) < len(ranges)


def test_a_position_after_the_end_is_an_error() -> None:
    part, store = planted()
    key = object_path(part.segment, IndexType.OFFSET)
    store.objects[key] = store.objects[key][:8]  # one entry: everything after it is one piece
    assert len(cut(part, store, records=30)) == 7
    store.objects[key] = struct.pack(">II", 9, len(LOG))
    with pytest.raises(CorruptDataError, match="after the end of the segment"):
        cut(part, store, records=30)


def test_ranges_know_between_which_offsets_their_batches_lie() -> None:
    part, store = planted()
    part = part._replace(start=33, end=177)
    for ranges in (cut(part, store), cut(part, store, len(LOG) // 8), cut(part, store, records=30)):
        for each in ranges:
            headers = [header for position, header in iter_headers(LOG) if each.start_byte <= position < each.end_byte]
            assert headers[0].base_offset >= each.bytes_start_offset
            assert headers[-1].next_offset <= each.bytes_end_offset
        assert (ranges[0].bytes_start_offset, ranges[-1].bytes_end_offset) == (0, 200)
    inner = cut(part, store, len(LOG) // 8)
    assert len(inner) > 3
    assert [each.bytes_end_offset for each in inner[:-1]] == [each.end_offset for each in inner[:-1]]
    assert [each.bytes_start_offset for each in inner[1:]] == [each.start_offset for each in inner[1:]]
