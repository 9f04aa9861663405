"""Statistics of a tier per topic and day: records, bytes, keys, codecs, and the lag from event to tier.

Days are those of the records' timestamps, in UTC. Keys are estimated by Spark's HyperLogLog. Records are committed ones
by default; codecs, stored bytes and lag are of all batches, since they come from headers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import ConfigError
from crabka.spark.access.tier_store import TierStore, open_tier_store, present
from crabka.spark.jobs.batch_facts import DAY_MS, FACT_SCHEMA, LAST_DAY, UNKNOWN_DAY, continued_ranges, fact_task
from crabka.spark.options.names import WHERE
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import open_context, tier_address
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan, TierRange
from crabka.spark.session.row_tasks import collect_rows
from crabka.spark.source.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW_SCHEMA: Final = "topic string, key binary, value binary, timestamp timestamp"
_DAY_OF_TIME: Final = f"CAST(FLOOR(UNIX_MICROS(timestamp) / {DAY_MS * 1000}) AS BIGINT)"
_DAY: Final = f"CASE WHEN {_DAY_OF_TIME} BETWEEN 0 AND {LAST_DAY} THEN {_DAY_OF_TIME} ELSE {UNKNOWN_DAY} END"
_EPOCH: Final = date(1970, 1, 1).toordinal()
_ISOLATION: Final = "kafka.isolation.level"


@dataclass(slots=True)
class TopicDay:
    """One topic on one day, None for records without a possible time. `codecs` has batches by their codec's name."""

    topic: str
    day: date | None
    records: int = 0
    record_bytes: int = 0
    keys: int = 0
    stored_bytes: int = 0
    codecs: dict[str, int] = field(default_factory=dict)
    lag_mean_ms: float = 0.0
    lag_max_ms: int = 0


def tier_stats(spark: SparkSession, source: Mapping[str, str]) -> list[TopicDay]:
    """Return the statistics of what the options of the Spark source name, as far as it is in the tier.

    Raises ConfigError and what planning raises.
    """
    given = {"read.mode": "tier"} | dict(source)
    if not any(name.lower().endswith("isolation.level") for name in given):
        given[_ISOLATION] = "read_committed"
    options = SourceOptions.parse(given, streaming=False)
    if options.where:
        raise ConfigError(f"{WHERE} is not allowed here: statistics are of whole batches")
    plan = plan_read(options)
    with open_context(options) as context:
        uri = tier_address(options, context.session)
    if uri is None:
        raise ConfigError("statistics are those of a tier: name it by tier.uri")
    register(spark)
    days = _count_rows(spark, given)
    count_batches(spark, plan, uri, options.storage, days)
    return [days[key] for key in sorted(days)]


Days = dict[tuple[str, int], TopicDay]


def _count_rows(spark: SparkSession, source: Mapping[str, str]) -> Days:
    frame = spark.read.format("crabka").options(**source).schema(_ROW_SCHEMA).load()
    grouped = frame.selectExpr(
        "topic",
        f"{_DAY} AS day",
        "key",
        "COALESCE(OCTET_LENGTH(key), 0) + COALESCE(OCTET_LENGTH(value), 0) AS bytes",
    ).groupBy("topic", "day")
    from pyspark.sql import functions

    counted = grouped.agg(
        functions.count("*").alias("records"),
        functions.sum("bytes").alias("bytes"),
        functions.approx_count_distinct("key").alias("keys"),
    )
    days: Days = {}
    for row in collect_rows(counted):
        found = _day_of(days, row)
        found.records, found.record_bytes, found.keys = row["records"], row["bytes"], row["keys"]
    return days


def count_batches(spark: SparkSession, plan: ReadPlan, uri: str, storage: Mapping[str, str], days: Days) -> None:
    """Add what the headers of batches say."""
    splits = [split for split in plan.splits if any(isinstance(each, TierRange) for each in split.ranges)]
    if not splits:
        return
    tiered = _tiered_times(open_tier_store(uri, storage), plan)
    rows = [(json.dumps(split.as_json()),) for split in splits]
    frame = spark.createDataFrame(rows, "split string").repartition(len(rows))
    task = fact_task(uri, dict(storage), tiered, continued_ranges(splits))
    facts = collect_rows(frame.mapInArrow(task, FACT_SCHEMA))
    totals: dict[tuple[str, int], int] = {}
    for row in facts:
        found = _day_of(days, row)
        found.stored_bytes += row["stored_bytes"]
        found.codecs[row["codec"]] = found.codecs.get(row["codec"], 0) + row["batches"]
        found.lag_max_ms = max(found.lag_max_ms, row["lag_max_ms"])
        key = (row["topic"], row["day"])
        before = totals.get(key, 0)
        totals[key] = before + row["records"]
        found.lag_mean_ms = (found.lag_mean_ms * before + row["lag_sum_ms"]) / max(totals[key], 1)


def _tiered_times(store: TierStore, plan: ReadPlan) -> dict[str, int]:
    """Return when the objects that are read were stored."""
    names = {each.object_name for split in plan.splits for each in split.ranges if isinstance(each, TierRange)}
    found = {
        key: modified_ms
        for directory in sorted({name.rpartition("/")[0] for name in names})
        for key, (_, modified_ms) in present(store.list(directory)).items()
    }
    return {name: found.get(name, 0) for name in names}


def _day_of(days: Days, row: Mapping[str, Any]) -> TopicDay:
    key = (row["topic"], row["day"])
    if key not in days:
        is_known = row["day"] != UNKNOWN_DAY
        days[key] = TopicDay(row["topic"], date.fromordinal(_EPOCH + row["day"]) if is_known else None)
    return days[key]
