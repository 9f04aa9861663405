"""One measurement in a Spark of its own: `python -m bench.spark_job <what> <side> <JSON>` prints what it found as JSON.

The side is `kafka` for Spark's own source, which reads from the broker, and `crabka` for ours, which reads the tier.
A small topic is read the same way before, so that neither pays for loading and compiling code.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from tests.support.spark.stock_connector import stock_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT: Final = Path(__file__).parents[1]
CODEC: Final = "zstd"


@dataclass(frozen=True, slots=True)
class Task:
    """What to read and where to write."""

    bootstrap: str
    tier: str
    topic: str
    warm_topic: str
    # Records of each partition; one more in each is not in the tier and is left out.
    ends: tuple[int, ...]
    warm_ends: tuple[int, ...]
    since_ms: int
    directory: str


Work = Callable[["SparkSession", str, Task], dict[str, float]]


def ask(what: str, side: str, task: Task, timeout_s: float = 1200) -> dict[str, float]:
    """Measure in a process of its own."""
    import subprocess

    command = [sys.executable, "-m", "bench.spark_job", what, side, json.dumps(asdict(task))]
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable}
    environment["CRABKA_CACHE_DIR"] = str(Path(task.directory) / "cache")
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=timeout_s, check=True, env=environment, cwd=ROOT
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _read(session: SparkSession, side: str, task: Task) -> dict[str, float]:
    _frame(session, side, task).write.format("noop").mode("overwrite").save()
    return {}


def _parquet(session: SparkSession, side: str, task: Task) -> dict[str, float]:
    target = Path(task.directory) / f"parquet-{os.getpid()}-{task.topic}"
    if side == "kafka":
        _frame(session, side, task).write.option("compression", CODEC).parquet(str(target))
        return {"size": _size(target)}
    from crabka.spark.lake import Lake, SyncRequest, SyncSettings, sync

    lake = Lake(str(target), "parquet", lambda: time.time_ns() // 1_000_000)
    (summary,) = sync(lake, _tier_options(task), SyncRequest(topics=(task.topic,), settings=SyncSettings()))
    assert summary.rows == sum(task.ends), summary
    return {"size": _size(target)}


def _filter(session: SparkSession, side: str, task: Task) -> dict[str, float]:
    from pyspark.sql.functions import lit

    since = datetime.fromtimestamp(task.since_ms / 1000, UTC)
    # The same rows, each asked for in the way that spares its source the most.
    where = {} if side == "kafka" else {"where": f"timestamp >= '{since.isoformat()}'"}
    frame = _frame(session, side, task, limits=where)
    kept = frame.where(frame.timestamp >= lit(since))
    assert kept.selectExpr("count(value) as kept").collect()[0].kept == _kept(task)
    return {}


def _count(session: SparkSession, side: str, task: Task) -> dict[str, float]:
    counts = _frame(session, side, task, "partition int").select("partition").groupBy("partition").count().collect()
    assert {row[0]: row[1] for row in counts} == dict(enumerate(task.ends)), counts
    return {}


def _memory(session: SparkSession, side: str, task: Task) -> dict[str, float]:
    # One task reads the whole segment.
    frame = _frame(session, side, task, limits={"maxTasks": "1"})
    frame.write.format("noop").mode("overwrite").save()
    return {}


WORKS: Final[dict[str, Work]] = {
    "read": _read,
    "parquet": _parquet,
    "filter": _filter,
    "count": _count,
    "memory": _memory,
}


def _frame(
    session: SparkSession, side: str, task: Task, schema: str | None = None, limits: dict[str, str] | None = None
) -> DataFrame:
    ends = {task.topic: {str(partition): end for partition, end in enumerate(task.ends)}}
    # A task for each core also of the small topic, so that the second worker is as warm as the first.
    chosen = {"subscribe": task.topic, "endingOffsets": json.dumps(ends), "minPartitions": "2"}
    if side == "kafka":
        options = {"kafka.bootstrap.servers": task.bootstrap}
        return session.read.format("kafka").options(**options, **chosen).load()
    reader = session.read.format("crabka").options(**_tier_options(task), **chosen, **(limits or {}))
    return (reader if schema is None else reader.schema(schema)).load()


def _tier_options(task: Task) -> dict[str, str]:
    # From the tier alone: what of it a broker would have to send is an error.
    return {"kafka.bootstrap.servers": task.bootstrap, "tier.uri": f"file://{task.tier}", "read.mode": "tier"}


def _kept(task: Task) -> int:
    """How many records the filter keeps: the timestamp of each is its number."""
    from bench.spark_place import BASE_MS

    return sum(task.ends) - max(task.since_ms - BASE_MS, 0)


def _size(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*.parquet")) / 1e6


@contextlib.contextmanager
def _session(side: str, directory: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.local.dir": f"{directory}/spark",
        "spark.log.level": "ERROR",
    }
    if side == "kafka":
        settings["spark.jars"] = ",".join(map(str, stock_jars()))
    builder = SparkSession.Builder().master("local[2]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if side == "crabka":
        from crabka.spark import register

        register(session)
    try:
        yield session
    finally:
        session.stop()


def _family() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _cpu_seconds() -> float:
    """Of this process, of Spark and of its workers, also of those that have ended."""
    return sum(sum(process.cpu_times()[:4]) for process in _family())


def _workers() -> list[psutil.Process]:
    """The Python processes below Spark."""
    return [process for process in psutil.Process().children(recursive=True) if "python" in process.name()]


def _read_bytes() -> dict[int, int]:
    """How many bytes each worker has read so far, from whatever."""
    return {process.pid: process.io_counters().read_chars for process in _workers()}


def _peak_worker_megabytes() -> float:
    """The most that any worker had in memory."""
    statuses = [Path(f"/proc/{process.pid}/status").read_text() for process in _workers()]
    peaks = [int(found[1]) for status in statuses if (found := re.search(r"VmHWM:\s+(\d+)", status))]
    return max(peaks, default=0) * 1024 / 1e6


def main() -> None:
    """Warm up, measure once, print."""
    what, side = sys.argv[1:3]
    given = json.loads(sys.argv[3])
    task = Task(**given | {"ends": tuple(given["ends"]), "warm_ends": tuple(given["warm_ends"])})
    warm = Task(**asdict(task) | {"topic": task.warm_topic, "ends": task.warm_ends, "since_ms": 0})
    with _session(side, task.directory) as session:
        WORKS[what](session, side, warm)
        read_before, cpu_before, begin = _read_bytes(), _cpu_seconds(), time.perf_counter()
        found = WORKS[what](session, side, task)
        found |= {"seconds": time.perf_counter() - begin, "cpu": _cpu_seconds() - cpu_before}
        read_bytes = sum(count - read_before.get(pid, 0) for pid, count in _read_bytes().items())
        found |= {"read_bytes": read_bytes, "peak": _peak_worker_megabytes()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
