"""Headers of batches become sums per topic, day and codec."""

from __future__ import annotations

from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.spark.jobs.batch_facts import DAY_MS, BatchSum, Sums, sum_batches
from crabka.spark.plan.ranges import TierRange
from tests.support.planted_tier import transaction

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


def test_markers_and_batches_out_of_the_range_do_not_count() -> None:
    noon = MONDAY * DAY_MS
    data = batch(0, noon) + batch(4, noon) + transaction(8, committed=True) + batch(20, noon)
    sums: Sums = {}
    sum_batches(tier_range(data, 4, 20), [memoryview(data)], noon, sums)
    assert sum(found.batches for found in sums.values()) == 2
