"""The experiments on Spark: each asks a Spark of its own and fills some rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bench.spark_job import Task, ask
from bench.spark_place import BASE_MS, LARGE_VALUE_BYTES, PARTITIONS, PLACE, SMALL, SMALL_ROWS
from bench.suite import Experiment, Watch

KEPT: Final = 0.01


@dataclass(frozen=True, slots=True)
class SparkWork:
    """How much work each experiment does."""

    rows: int = 5_000_000
    segment_bytes: int = 1 << 30


QUICK_SPARK = SparkWork(rows=300_000, segment_bytes=128 << 20)


def read(side: str, work: SparkWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Read all rows with all columns, and look at what the broker had to send for it."""
    task = _task(work)
    sent = PLACE.node.bytes_sent(task.topic)
    found = ask("read", side, task)
    yield "read", work.rows / found["seconds"]
    yield "read_cpu", found["cpu"] / (work.rows / 1e6)
    yield "broker_bytes", PLACE.node.bytes_sent(task.topic) - sent


def parquet(side: str, work: SparkWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Write the topic as Parquet files: `df.write.parquet`, and `lake sync`."""
    found = ask("parquet", side, _task(work))
    yield "parquet", work.rows / found["seconds"]
    yield "parquet_cpu", found["cpu"] / (work.rows / 1e6)
    yield "parquet_size", found["size"]


def filtered(side: str, work: SparkWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Keep the last rows by their timestamps."""
    task = _task(work)
    found = ask("filter", side, task)
    yield "filter", work.rows / found["seconds"]
    if side == "crabka":
        yield "filter_bytes", 100 * found["read_bytes"] / _tier_bytes(task.topic)


def count(side: str, work: SparkWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Count the rows of each partition."""
    found = ask("count", side, _task(work))
    yield "count", work.rows / found["seconds"]
    yield "count_cpu", found["cpu"] / (work.rows / 1e6)


def memory(side: str, work: SparkWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Let one task read a large segment."""
    if side == "crabka":
        large = PLACE.large_topic(work.segment_bytes)
        rows = work.segment_bytes // LARGE_VALUE_BYTES
        yield "memory", ask("memory", side, replace(_task(work), topic=large, ends=(rows,)))["peak"]


def _task(work: SparkWork) -> Task:
    topic = PLACE.topic(work.rows)
    directory = PLACE.directory / "spark"
    directory.mkdir(exist_ok=True)
    return Task(
        bootstrap=PLACE.node.bootstrap_servers,
        tier=str(PLACE.tier),
        topic=topic,
        warm_topic=SMALL,
        ends=(work.rows // PARTITIONS,) * PARTITIONS,
        warm_ends=(SMALL_ROWS // PARTITIONS,) * PARTITIONS,
        since_ms=BASE_MS + round(work.rows * (1 - KEPT)),
        directory=str(directory),
    )


def _tier_bytes(topic: str) -> int:
    """How large the segments of a topic are."""
    return sum(path.stat().st_size for path in PLACE.tier.rglob("*.log") if path.parent.name.startswith(f"{topic}-"))


SPARK_EXPERIMENTS: dict[str, Experiment[SparkWork]] = {
    "read": read,
    "parquet": parquet,
    "filter": filtered,
    "count": count,
    "memory": memory,
}
