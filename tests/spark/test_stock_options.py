"""The same rows as Spark's own Kafka source, or an error where it has one, whatever offsets and times are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from crabka.clients import SyncAdmin
from crabka.clients.fetcher.offsets import LATEST
from crabka.ids import TopicPartition
from tests.support.scale import scaled
from tests.support.seeds import base_seed
from tests.support.spark.rows import Rows, load, rows_of
from tests.support.spark.topics import (
    BASE_MS,
    CLUSTERS,
    TIME_SPAN_MS,
    Place,
    create_tiered_topic,
    fill,
    tiered_cluster,
    wait_for_tier,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = scaled(10, 150)
TOPICS = ("whole", "beheaded")
PARTITIONS = 2
DELETED = 7
Options = dict[str, str]
T = TypeVar("T")


class Scene(NamedTuple):
    """A tiered topic, and one that has lost its first records; and where they end."""

    place: Place
    ends: dict[TopicPartition, int]


@pytest.fixture(scope="module", params=CLUSTERS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("options")
    with tiered_cluster(request.param, directory) as place:
        for number, topic in enumerate(TOPICS):
            create_tiered_topic(place, topic)
            fill(place, topic, base_seed() + number, batches=20)
            wait_for_tier(place, topic)
            fill(place, topic, base_seed() + 10 + number, batches=2)
        partitions = [TopicPartition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        with SyncAdmin(place.bootstrap) as admin:
            admin.delete_records({TopicPartition("beheaded", 0): DELETED})
            found = admin.list_offsets(dict.fromkeys(partitions, LATEST))
        yield Scene(place, {partition: answer.offset for partition, answer in found.items()})


@st.composite
def asked(draw: st.DrawFn, ends: dict[TopicPartition, int]) -> Options:
    """Draw what a reader may ask for: mostly what makes sense, at times what does not or is not there."""
    topics = draw(st.sampled_from([["whole"], ["beheaded"], ["whole", "beheaded"]]))
    chosen = {partition: end for partition, end in ends.items() if partition.topic in topics}
    options: Options = {"subscribe": ",".join(topics)} | draw(starts(chosen)) | draw(stops(chosen))
    extras: dict[str, st.SearchStrategy[str]] = {
        "failOnDataLoss": st.sampled_from(["true", "false"]),
        "includeHeaders": st.sampled_from(["true", "false"]),
        "minPartitions": st.integers(1, 9).map(str),
        "maxRecordsPerPartition": st.integers(30, 300).map(str),
        "startingOffsetsByTimestampStrategy": st.sampled_from(["error", "latest"]),
        "kafka.isolation.level": st.sampled_from(["read_committed", "read_uncommitted"]),
    }
    return options | {name: draw(extras[name]) for name in sorted(draw(st.sets(st.sampled_from(sorted(extras)))))}


def starts(ends: dict[TopicPartition, int]) -> st.SearchStrategy[Options]:
    """Draw where to begin."""
    early = {partition: seldom(st.integers(-2, end // 2), st.integers(-2, end + 2)) for partition, end in ends.items()}
    time = seldom(st.integers(BASE_MS - 9, BASE_MS + TIME_SPAN_MS // 2), st.integers(BASE_MS, BASE_MS * 2))
    return st.one_of(
        st.just({}),
        option("startingOffsets", seldom(st.just("earliest"), st.just("latest"))),
        option("startingOffsets", per_partition(early)),
        option("startingTimestamp", time.map(str)),
        option("startingOffsetsByTimestamp", per_partition(dict.fromkeys(ends, time))),
    )


def stops(ends: dict[TopicPartition, int]) -> st.SearchStrategy[Options]:
    """Draw where to end."""
    late = {partition: seldom(st.integers(end // 2, end), st.integers(-2, end + 2)) for partition, end in ends.items()}
    time = seldom(
        st.integers(BASE_MS + TIME_SPAN_MS // 2, BASE_MS + TIME_SPAN_MS + 9), st.integers(BASE_MS, BASE_MS * 2)
    )
    return st.one_of(
        st.just({}),
        option("endingOffsets", seldom(st.just("latest"), st.just("earliest"))),
        option("endingOffsets", per_partition(late)),
        option("endingTimestamp", time.map(str)),
        option("endingOffsetsByTimestamp", per_partition(dict.fromkeys(ends, time))),
    )


def seldom(usual: st.SearchStrategy[T], other: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """Draw the other one in one case out of eight."""
    return st.integers(0, 7).flatmap(lambda number: other if number == 7 else usual)


def option(name: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[Options]:
    """Draw the value of an option."""
    return value.map(lambda drawn: {name: drawn})


def per_partition(values: dict[TopicPartition, st.SearchStrategy[int]]) -> st.SearchStrategy[str]:
    """Draw one number for each partition, as JSON; seldom one partition is left out."""
    last = list(values)[-1]
    some = {partition: strategy for partition, strategy in values.items() if partition != last}
    return seldom(st.fixed_dictionaries(values), st.fixed_dictionaries(some)).map(nested_json)


def nested_json(numbers: dict[TopicPartition, int]) -> str:
    """Write numbers as Spark's options want them."""
    nested: dict[str, dict[int, int]] = {}
    for partition, number in numbers.items():
        nested.setdefault(partition.topic, {})[partition.partition] = number
    return json.dumps(nested)


def outcome(spark: SparkSession, options: Options, source: str) -> Rows | None:
    """Return the rows, None if there was an error."""
    try:
        return rows_of(load(spark, options, source))
    except Exception as error:  # noqa: BLE001 - Spark has no common class of those that a source raises
        note(f"{source}: {error}")
        return None


@pytest.mark.usefixtures("stock")
@pytest.mark.timeout(scaled(300, 7200))
def test_whatever_is_asked_for(spark: SparkSession, scene: Scene) -> None:
    numbers_of_rows: list[int] = []

    @settings(max_examples=EXAMPLES)
    @given(options=asked(scene.ends))
    def check(options: Options) -> None:
        named = options | {"kafka.bootstrap.servers": scene.place.bootstrap}
        ours = outcome(spark, named | scene.place.tier_options, "crabka")
        assert ours == outcome(spark, named, "kafka")
        numbers_of_rows.append(len(ours or ()))

    check()
    assert sum(number > 0 for number in numbers_of_rows) > EXAMPLES / 3, "most of what was asked for makes sense"
