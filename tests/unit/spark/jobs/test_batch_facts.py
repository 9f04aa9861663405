"""Headers of batches become sums per topic, day and codec."""

from __future__ import annotations

from datetime import date

import pytest
from crc32c import crc32c

from crabka.errors import CorruptDataError
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.spark.jobs.batch_facts import (
    DAY_MS,
    LAST_DAY,
    UNKNOWN_DAY,
    BatchSum,
    Sums,
    continued_ranges,
    day_of,
    sum_batches,
)
from crabka.spark.plan.ranges import Split, TierRange
from tests.support.tiers.planted import transaction

MONDAY = 20_000


def batch(offset: int, timestamp: int, *, codec: int = 0) -> bytes:
    return build_batch([Record(0, timestamp, b"k", b"v" * 50)] * 4, base_offset=offset, codec=codec)


def tier_range(data: bytes, start: int, end: int) -> TierRange:
    return TierRange("t", "id", 0, start, end, "object", 0, len(data))


def test_batches_are_summed_by_day_and_codec() -> None:
    noon = MONDAY * DAY_MS + DAY_MS // 2
    data = batch(0, noon) + batch(4, noon + 1_000, codec=3) + batch(8, noon + DAY_MS)
    sums: Sums = {}
    pieces = [memoryview(data)[:100], memoryview(data)[100:]]
    sum_batches(tier_range(data, 0, 12), pieces, noon + 5_000, sums)
    assert set(sums) == {("t", MONDAY, "none"), ("t", MONDAY, "lz4"), ("t", MONDAY + 1, "none")}
    plain = sums["t", MONDAY, "none"]
    assert plain == BatchSum(4, 1, len(batch(0, noon)), 4 * 5_000.0, 5_000)
    assert sums["t", MONDAY, "lz4"].lag_max_ms == 4_000
    # A clock that is ahead is no negative lag.
    assert sums["t", MONDAY + 1, "none"].lag_max_ms == 0


def sums_of(data: bytes, *, tiered_ms: int = MONDAY * DAY_MS) -> Sums:
    sums: Sums = {}
    sum_batches(tier_range(data, 0, 100), [memoryview(data)], tiered_ms, sums)
    return sums


@pytest.mark.parametrize("timestamp", [-1, 1_700_000_000_000_000, (LAST_DAY + 1) * DAY_MS])
def test_times_that_no_calendar_has_are_of_an_unknown_day_and_without_lag(timestamp: int) -> None:
    data = batch(0, timestamp)
    assert sums_of(data) == {("t", UNKNOWN_DAY, "none"): BatchSum(4, 1, len(data), 0.0, 0)}


def test_the_last_day_is_that_of_the_calendar() -> None:
    assert date.fromordinal(date(1970, 1, 1).toordinal() + LAST_DAY) == date.max
    assert day_of(LAST_DAY * DAY_MS) == LAST_DAY


def test_a_header_with_a_wrong_checksum_is_not_believed() -> None:
    data = bytearray(batch(0, MONDAY * DAY_MS))
    data[35] ^= 0x40
    with pytest.raises(CorruptDataError, match="offset 0 has a wrong checksum"):
        sums_of(bytes(data))


def test_an_unknown_codec_is_reported() -> None:
    data = bytearray(batch(0, MONDAY * DAY_MS))
    data[22] |= 7
    data[17:21] = crc32c(data[21:]).to_bytes(4)
    with pytest.raises(CorruptDataError, match="unknown codec 7"):
        sums_of(bytes(data))


def test_a_batch_on_the_border_of_two_ranges_counts_once() -> None:
    data = batch(0, MONDAY * DAY_MS) + batch(4, MONDAY * DAY_MS)
    first, second = tier_range(data, 2, 6), tier_range(data, 6, 8)
    continued = continued_ranges([Split((first,)), Split((second,))])
    assert continued == {("object", 6)}
    sums: Sums = {}
    for each in (first, second):
        continues = (each.object_name, each.start_offset) in continued
        sum_batches(each, [memoryview(data)], MONDAY * DAY_MS, sums, continues=continues)
    assert sums["t", MONDAY, "none"].batches == 2


def test_markers_and_batches_out_of_the_range_do_not_count() -> None:
    noon = MONDAY * DAY_MS
    data = batch(0, noon) + batch(4, noon) + transaction(8, committed=True) + batch(20, noon)
    sums: Sums = {}
    sum_batches(tier_range(data, 4, 20), [memoryview(data)], noon, sums)
    assert sum(found.batches for found in sums.values()) == 2
