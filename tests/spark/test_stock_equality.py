"""The same rows as Spark's own Kafka source, on random topics of a running broker, tiered and not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import plan_read
from tests.support.scale import scaled, soaking
from tests.support.seeds import base_seed
from tests.support.spark.rows import load, rows_of
from tests.support.spark.topic_plans import PlannedTopic, make_topic, topic_plans
from tests.support.spark.topics import (
    BASE_MS,
    CLUSTERS,
    Place,
    create_tiered_topic,
    fill,
    tiered_cluster,
    wait_for_tier,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = scaled(6, 200)


@pytest.fixture(scope="module", params=CLUSTERS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("stock")
    with tiered_cluster(request.param, directory) as running:
        create_tiered_topic(running, "tiered")
        fill(running, "tiered", base_seed(), batches=40)
        wait_for_tier(running, "tiered")
        fill(running, "tiered", base_seed() + 1, batches=3)
        yield running


def both(spark: SparkSession, place: Place, **options: str) -> tuple[list[object], list[object]]:
    """Return the rows of our source and of Spark's own, both from the same state of the topic."""
    common = {"kafka.bootstrap.servers": place.bootstrap, "includeHeaders": "true"}
    named = common | {key.replace("__", "."): value for key, value in options.items()}
    theirs = rows_of(load(spark, named, "kafka"))
    while True:
        ours = rows_of(load(spark, named | place.tier_options))
        if ours == theirs:
            return list(ours), list(theirs)
        again = rows_of(load(spark, named, "kafka"))
        if again == theirs:
            return list(ours), list(theirs)
        theirs = again  # compaction went on in between


@pytest.mark.usefixtures("stock")
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_tiered_topic_has_the_same_rows(spark: SparkSession, place: Place, level: str) -> None:
    ours, theirs = both(spark, place, subscribe="tiered", kafka__isolation__level=level)
    assert ours == theirs
    assert ours
    options = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": "tiered", "isolation.level": level}
    options |= place.tier_options
    report = plan_read(SourceOptions.parse(options, streaming=False)).report
    assert report.segments > 3, "the cluster said where its tier is, and that was read"


@pytest.mark.usefixtures("stock")
def test_offsets_and_times_choose_the_same_rows(spark: SparkSession, place: Place) -> None:
    everything, _ = both(spark, place, subscribe="tiered")
    middle = {partition: [row[4] for row in everything if row[3] == partition] for partition in (0, 1)}  # type: ignore[index]
    first = {partition: offsets[len(offsets) // 3] for partition, offsets in middle.items()}
    last = {partition: offsets[len(offsets) // 2] for partition, offsets in middle.items()}
    chosen = [
        {
            "startingOffsets": f'{{"tiered":{{"0":{first[0]},"1":-2}}}}',
            "endingOffsets": f'{{"tiered":{{"0":{last[0]},"1":-1}}}}',
        },
        {"startingTimestamp": str(BASE_MS + 50_000), "endingTimestamp": str(BASE_MS + 90_000 + (1 << 40))},
    ]
    for options in chosen if soaking() else chosen[:1]:
        ours, theirs = both(spark, place, subscribe="tiered", **options)
        assert ours == theirs


@pytest.mark.usefixtures("stock")
@pytest.mark.timeout(scaled(300, 7200))
def test_random_topics_have_the_same_rows(spark: SparkSession, place: Place) -> None:
    numbers = itertools.count()

    @settings(max_examples=TOPICS)
    @given(plan=topic_plans(), level=st.sampled_from(["read_uncommitted", "read_committed"]))
    def check(plan: PlannedTopic, level: str) -> None:
        topic = f"random-{next(numbers)}"
        make_topic(place, topic, plan)
        ours, theirs = both(spark, place, subscribe=topic, kafka__isolation__level=level)
        assert ours == theirs

    check()
