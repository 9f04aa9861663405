"""The third act of the tour: Spark reads the tier without the broker and makes a table, which answers a question.

Needs Java, which the rest of the tour does not.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.cli.extras import needs_extra
from crabka.errors import CrabkaError
from crabka.ids import uuid_to_text
from crabka.spark.session.java import java_problem

if TYPE_CHECKING:
    import uuid

    from pyspark.sql import SparkSession

    from crabka.spark.lake import Lake, TopicSummary

PLOT_NAME: Final = "orders.png"
LOG_NAME: Final = "spark.log"
_IN_TIER: Final = "SELECT partition, min(offset) AS first, count(*) AS rows FROM tier GROUP BY partition"
_QUESTION: Final = """
    SELECT item, count(*) AS orders, sum(quantity) AS pieces, round(sum(quantity * price), 2) AS revenue
    FROM orders GROUP BY item ORDER BY revenue DESC
"""

Say = Callable[[str], contextlib.AbstractContextManager[None]]


class Sold(NamedTuple):
    """A row of the answer."""

    item: str
    orders: int
    pieces: int
    revenue: float


class TierRows(NamedTuple):
    """What the tier has of a partition."""

    partition: int
    first_offset: int
    row_count: int


class LakeFacts(NamedTuple):
    """Results of the Spark act."""

    row_count: int
    read_seconds: float
    table: str
    new_row_count: int
    file_count: int
    sync_seconds: float
    answer: list[Sold]
    plot: Path


def give_lake_tour(topic: str, topic_id: uuid.UUID, say: Say, *, tier: str, lake_dir: str) -> LakeFacts | str:
    """Read the topic from its tier, make a Delta table and query it; without Java return the reason.

    The tier and the lake may have topics and tables of the same name from earlier tours: the id says which is which.
    Raises CrabkaError if rows are missing, ConfigError without the libraries.
    """
    problem = java_problem()
    if problem is not None:
        return problem
    with needs_extra("the table of the tour"):
        from crabka.spark import register
        from crabka.spark.lake import Lake
        from crabka.spark.session.job_session import job_session

    Path(lake_dir).mkdir(parents=True, exist_ok=True)
    options = {
        "tier.uri": f"file://{Path(tier).resolve()}",
        "tier.metadata": "listing",
        "tier.topicId": uuid_to_text(topic_id),
    }
    with contextlib.ExitStack() as stack:
        with say("starting Spark"):
            spark = stack.enter_context(job_session("crabka tour", log=str(Path(lake_dir) / LOG_NAME)))
            register(spark)
        with say("Spark reads the tier"):
            started = time.perf_counter()
            in_tier = _rows_in_tier(spark, topic, options)
            read_seconds = time.perf_counter() - started
        with say("tier to Delta table"):
            started = time.perf_counter()
            lake = Lake(lake_dir, "delta", lambda: int(time.time() * 1000))
            summary = _sync(lake, topic, free_table_name(lake, topic, topic_id), options)
            sync_seconds = time.perf_counter() - started
        with say("querying the table"):
            files = lake.files(summary.table)
            answer = _ask(spark, files, in_tier)
            plot = Path(lake_dir) / PLOT_NAME
            _draw(answer, plot)
    row_count = sum(rows.row_count for rows in in_tier)
    table = f"{lake_dir}/{summary.table}"
    return LakeFacts(row_count, read_seconds, table, summary.rows, len(files), sync_seconds, answer, plot)


def free_table_name(lake: Lake, topic: str, topic_id: uuid.UUID) -> str:
    """Return the name of the topic's table, or of a new one if a topic of an earlier tour has that name."""
    for number in itertools.count(1):
        name = topic if number == 1 else f"{topic}_{number}"
        table = lake.open(name)
        if table is None or (table.spec.topic, table.spec.topic_id) == (topic, uuid_to_text(topic_id)):
            return name
    raise AssertionError


def _rows_in_tier(spark: SparkSession, topic: str, options: dict[str, str]) -> list[TierRows]:
    reader = spark.read.format("crabka").options(**options, subscribe=topic)
    reader.schema("partition int, offset bigint").load().createOrReplaceTempView("tier")
    return [TierRows(row["partition"], row["first"], row["rows"]) for row in spark.sql(_IN_TIER).collect()]


def _sync(lake: Lake, topic: str, table: str, options: dict[str, str]) -> TopicSummary:
    """Copy the topic to its table."""
    from crabka.spark.lake import SyncRequest, SyncSettings, sync
    from crabka.spark.lake.values.given_schemas import decoder_of

    settings = SyncSettings(decoder=decoder_of("json", None))
    (summary,) = sync(lake, options, SyncRequest(topics=(topic,), table_name=table, settings=settings))
    return summary


def _ask(spark: SparkSession, files: list[str], in_tier: list[TierRows]) -> list[Sold]:
    """Query the table. Raises CrabkaError if it lacks rows of the tier.

    The table may have more: rows whose segments left the tier since an earlier tour.
    """
    table = spark.read.parquet(*files)
    expected = sum(rows.row_count for rows in in_tier)
    places = (f"(kafka_partition = {rows.partition} AND kafka_offset >= {rows.first_offset})" for rows in in_tier)
    found = table.where(" OR ".join(places) or "false").count()
    if found != expected:
        raise CrabkaError(f"Spark read {expected} orders from the tier, and the table has {found} of them")
    table.createOrReplaceTempView("orders")
    return [Sold(row["item"], row["orders"], row["pieces"], row["revenue"]) for row in spark.sql(_QUESTION).collect()]


def _draw(answer: list[Sold], path: Path) -> None:
    from crabka.spark.plots import Bar, Scale, draw_bars, save_figure, short_number

    bars = [Bar(sold.item, sold.revenue, short_number(sold.revenue), f"{sold.orders:,} orders") for sold in answer]
    orders = sum(sold.orders for sold in answer)
    subtitle = f"Sum of quantity times price of {orders:,} orders, queried from the Delta table of the tour."
    save_figure(
        draw_bars("Revenue by item", subtitle, bars, Scale("revenue, in the currency of the prices")), str(path)
    )


def answer_lines(answer: list[Sold], width: int = 20) -> Iterator[tuple[str, str]]:
    """Yield the answer as lines of a bar chart: item, and bar with the number."""
    most = max((sold.revenue for sold in answer), default=1.0)
    for sold in answer:
        bar = "█" * max(1, round(width * sold.revenue / most))
        yield sold.item, f"{bar:<{width}} {sold.revenue:>12,.0f}  {sold.orders:>7,} orders"
