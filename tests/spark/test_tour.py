"""The tour's last part: Spark reads the tier without the broker, and the table answers."""

from __future__ import annotations

import contextlib
import json
import uuid
from pathlib import Path

from pyspark.sql import SparkSession

from crabka.cli.session import with_cluster
from crabka.cli.story import story
from crabka.cli.story.spark_act import LakeFacts, free_table_name, give_lake_tour
from crabka.cli.story.tier_act import TIERED_TOPIC, send_to_tier
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.cluster.cluster import Cluster
from crabka.embedded import Broker
from crabka.ids import TopicPartition, uuid_to_text
from crabka.spark.lake.formats.table import TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.values.schemas import table_schema

COUNT = 3_000


def _fill_tier(directory: Path, count: int = COUNT) -> uuid.UUID:
    """Send orders to a tier from a new cluster; return the id of their topic."""
    haste = {"remote.log.manager.task.interval.ms": "100", "log.retention.check.interval.ms": "100"}

    async def fill(cluster: Cluster) -> uuid.UUID:
        admin = Admin(cluster)
        await admin.create_topics([NewTopic(story.TOPIC, 1, 1, TIERED_TOPIC)])
        await story.write_orders(cluster, count, lambda _: None)
        place = TopicPartition(story.TOPIC, 0)
        await send_to_tier(admin, {place: 0}, {place: count}, lambda _: None)
        return (await admin.describe_topics([story.TOPIC]))[story.TOPIC].topic_id

    with Broker(tier=str(directory), settings=haste) as broker:
        return with_cluster(broker.bootstrap_servers, fill)


def test_the_table_answers_what_the_orders_say_beside_an_earlier_tour(spark: SparkSession, tmp_path: Path) -> None:
    old_id = _fill_tier(tmp_path / "tier", 10)
    lake = Lake(str(tmp_path / "lake"), "delta", lambda: 0)
    lake.create(story.TOPIC, TableSpec(story.TOPIC, uuid_to_text(old_id), table_schema([], with_date=False)))
    topic_id = _fill_tier(tmp_path / "tier")
    said: list[str] = []

    def say(step: str) -> contextlib.AbstractContextManager[None]:
        said.append(step)
        return contextlib.nullcontext()

    found = give_lake_tour(story.TOPIC, topic_id, say, tier=str(tmp_path / "tier"), lake_dir=str(tmp_path / "lake"))
    assert isinstance(found, LakeFacts)
    assert found.table == f"{tmp_path}/lake/orders_2"
    assert free_table_name(lake, story.TOPIC, topic_id) == "orders_2"
    assert (found.row_count, found.new_row_count) == (COUNT, COUNT)
    orders = [json.loads(value) for _key, value in story.orders(COUNT)]
    best = found.answer[0]
    sold = [order for order in orders if order["item"] == best.item]
    assert best.orders == len(sold)
    assert best.revenue == round(sum(order["quantity"] * order["price"] for order in sold), 2)
    assert found.plot.read_bytes().startswith(b"\x89PNG")
    assert len(said) == 4
