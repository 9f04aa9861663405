"""Statistics of a tier from the headers of its batches; rows are counted by Spark, in tests/spark."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from crabka.errors import ConfigError
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.spark.jobs.stats import Days, TopicDay, count_batches, tier_stats
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.planner import plan_read
from tests.support.recorded.files import GOLDEN
from tests.support.spark.one_thread import OneThreadSpark
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import FIRST_TIMESTAMP_MS, PlantedTier, batches

pytestmark = [
    pytest.mark.usefixtures("plan_cache"),
    pytest.mark.allow_leaks("the library of object stores keeps descriptors until the process ends"),
]

URI = f"file://{GOLDEN}/single/tier"


def count(topics: str, uri: str = URI, **more: str) -> list[TopicDay]:
    given = {"tier.uri": uri, "tier.metadata": "listing", "subscribe": topics} | more
    days: Days = {}
    plan = plan_read(SourceOptions.parse(given, streaming=False))
    count_batches(cast("Any", OneThreadSpark()), plan, uri, {}, days)
    return [days[key] for key in sorted(days)]


def test_stored_bytes_and_codecs_are_those_of_the_segments() -> None:
    days = count("tiered,tiered-retention")
    assert {day.topic for day in days} == {"tiered", "tiered-retention"}
    logs = list(Path(f"{GOLDEN}/single/tier").rglob("tiered-[01]-*/*.log"))
    assert sum(day.stored_bytes for day in days if day.topic == "tiered") == sum(path.stat().st_size for path in logs)
    assert {name for day in days for name in day.codecs} <= {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(day.day is not None and day.day.year == 2023 for day in days)


def test_a_small_plan_counts_no_batch_twice() -> None:
    def batch_count(**more: str) -> int:
        return sum(sum(day.codecs.values()) for day in count("tiered", **more))

    assert batch_count(maxRecordsPerPartition="7") == batch_count()


def test_records_of_impossible_times_have_no_day(tmp_path: Path) -> None:
    tier = PlantedTier()
    micros = FIRST_TIMESTAMP_MS * 1_000
    tier.add(build_batch([Record(0, micros, b"key", b"value")]) + batches(1, 1), [(0, 0)])
    unknown, known = count("orders", uri=write_tier(tmp_path, tier))
    assert (unknown.day, unknown.codecs, unknown.lag_max_ms) == (None, {"none": 1}, 0)
    assert known.day == date(2023, 11, 14)


def test_lag_is_from_the_record_to_the_object() -> None:
    days = count("tiered")
    assert all(0 < day.lag_mean_ms <= day.lag_max_ms for day in days)


def test_tier_without_anything_has_no_days() -> None:
    days: Days = {}
    given = {"tier.uri": URI, "tier.metadata": "listing", "subscribePattern": "nothing-like-this"}
    plan = plan_read(SourceOptions.parse(given, streaming=False))
    count_batches(cast("Any", OneThreadSpark()), plan, URI, {}, days)
    assert days == {}


def test_conditions_are_refused() -> None:
    given = {"tier.uri": URI, "tier.metadata": "listing", "subscribe": "tiered", "where": "offset > 5"}
    with pytest.raises(ConfigError, match="where is not allowed here"):
        tier_stats(cast("Any", OneThreadSpark()), given)
