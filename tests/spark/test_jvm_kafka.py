"""A running Apache Kafka with a tier: the same rows as Spark's own Kafka source, from the tier and from the broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import plan_read
from tests.support.seeds import base_seed
from tests.support.spark.rows import load, rows_of
from tests.support.spark.topics import Place, create_tiered_topic, fill, tiered_kafka, wait_for_tier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("stock")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with tiered_kafka(tmp_path_factory.mktemp("kafka")) as running:
        create_tiered_topic(running, "tiered")
        fill(running, "tiered", base_seed(), batches=40)
        wait_for_tier(running, "tiered")
        fill(running, "tiered", base_seed() + 1, batches=3)
        yield running


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_rows_are_those_of_sparks_own_source(spark: SparkSession, place: Place, level: str) -> None:
    options = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": "tiered", "includeHeaders": "true"}
    options |= {"kafka.isolation.level": level}
    expected = rows_of(load(spark, options, "kafka"))
    assert expected
    # Kafka hides where its tier is: then its brokers serve all.
    assert plan_read(SourceOptions.parse(options, streaming=False)).report.segments == 0
    assert rows_of(load(spark, options)) == expected
    found = options | place.tier_options
    assert plan_read(SourceOptions.parse(found, streaming=False)).report.segments > 3
    assert rows_of(load(spark, found)) == expected
