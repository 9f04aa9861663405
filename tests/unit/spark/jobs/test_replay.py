"""What a replay reads of a plan, and a replay whose tasks run in this thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.jobs.replay import ReplayedPartition, partition_splits, replay_topic, rest_of, shared_rate
from crabka.spark.jobs.replay_writer import ReplayTarget
from crabka.spark.plan.history.divergence import LogCutError
from crabka.spark.plan.ranges import BrokerRange, ReadPlan, Split
from tests.support.clusters.loopback import loopback_cluster
from tests.support.coordinators.memory_transactions import MemoryTransactions
from tests.support.recorded.files import GOLDEN
from tests.support.spark.one_thread import OneThreadSpark
from tests.support.tiers.planted import PlantedTier, batches
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.allow_leaks("the library of object stores keeps descriptors until the process ends")

SPARK = cast("Any", OneThreadSpark())
SOURCE = {"tier.uri": f"file://{GOLDEN}/single/tier", "tier.metadata": "listing", "subscribe": "tiered-txn"}


def broker_range(partition: int, start: int, end: int) -> BrokerRange:
    return BrokerRange("t", None, partition, start, end)


def test_partitions_are_read_in_order_whatever_the_splits() -> None:
    splits = (
        Split((broker_range(1, 50, 90), broker_range(0, 10, 20))),
        Split((broker_range(0, 0, 10), broker_range(1, 0, 50))),
    )
    plan = ReadPlan(splits, {("t", 0): (0, 20), ("t", 1): (0, 100), ("t", 2): (5, 5)}, {"t": None})
    assert partition_splits(plan) == {
        0: (Split((broker_range(0, 0, 10), broker_range(0, 10, 20))), 20),
        1: (Split((broker_range(1, 0, 50), broker_range(1, 50, 90))), 100),
        2: (Split(()), 5),
    }


def test_what_is_done_is_not_read_again() -> None:
    split = Split((broker_range(0, 0, 10), broker_range(0, 10, 20), broker_range(0, 20, 30)))
    assert rest_of(split, 15) == Split((broker_range(0, 15, 20), broker_range(0, 20, 30)))
    assert rest_of(split, 30) == Split(())


def test_rate_is_shared_out_among_the_partitions() -> None:
    target = ReplayTarget(bootstrap="h:1", topic="t", name="r", records_per_second=100)
    assert shared_rate(target, 4).records_per_second == 25
    free = ReplayTarget(bootstrap="h:1", topic="t", name="r")
    assert shared_rate(free, 4) is free


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MemoryTransactions, ReplayTarget]]:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic("copy")
        target = ReplayTarget(bootstrap=bootstrap, topic="copy", name="r", transaction_records=20)
        yield MemoryTransactions(cluster), target


World = tuple[MemoryTransactions, ReplayTarget]


def test_committed_records_are_replayed_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    coordinator, target = world
    assert replay_topic(SPARK, SOURCE, target) == [ReplayedPartition(0, 48, 93)]
    assert caplog.messages == []
    assert replay_topic(SPARK, SOURCE, target) == [ReplayedPartition(0, 0, 93)]
    (message,) = caplog.messages
    assert "Nothing was written: r has replayed all of this before" in message
    assert len(coordinator.committed_values[TopicPartition("copy", 0)]) == 48
    assert coordinator.committed == {"r": {TopicPartition("copy", 0): 93}}


def test_lost_progress_is_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    coordinator, target = world
    replay_topic(SPARK, SOURCE, target)
    del coordinator.committed["r"]
    replay_topic(SPARK, SOURCE, target)
    (message,) = caplog.messages
    assert "there is no progress of r: all is replayed" in message


def test_target_has_to_be_there_with_enough_partitions(world: World) -> None:
    _, target = world
    with pytest.raises(ConfigError, match="has 1 partitions, the source 2"):
        replay_topic(SPARK, SOURCE | {"subscribe": "tiered"}, target)
    missing = ReplayTarget(bootstrap=target.bootstrap, topic="nowhere", name="r")
    with pytest.raises(ConfigError, match="there is no topic nowhere"):
        replay_topic(SPARK, SOURCE, missing)


def test_conditions_are_refused(world: World) -> None:
    _, target = world
    with pytest.raises(ConfigError, match="where is not allowed here"):
        replay_topic(SPARK, SOURCE | {"where": "offset > 5"}, target)


def test_source_is_one_topic(world: World) -> None:
    _, target = world
    with pytest.raises(ConfigError, match="one source topic, not 2"):
        replay_topic(SPARK, SOURCE | {"subscribe": "tiered,tiered-txn"}, target)


def test_a_source_that_was_cut_is_not_replayed_on(world: World, tmp_path: Path) -> None:
    _, target = world

    def source_of(place: str, *values: bytes) -> dict[str, str]:
        tier = PlantedTier()
        tier.add(b"".join(batches(5 * at, 1, value=value) for at, value in enumerate(values)), [(0, 0)])
        uri = write_tier(tier, tmp_path / place)
        return {"tier.uri": uri, "tier.metadata": "listing", "subscribe": "orders"}

    old = source_of("old", *[b"old"] * 6)
    assert replay_topic(SPARK, old | {"endingOffsets": '{"orders":{"0":20}}'}, target) == [ReplayedPartition(0, 20, 20)]
    assert replay_topic(SPARK, source_of("grown", *[b"old"] * 7), target) == [ReplayedPartition(0, 15, 35)]
    cut = source_of("cut", *[b"old"] * 2, *[b"new"] * 8)
    with pytest.raises(LogCutError, match="orders-0 was cut: it no longer has what was read before offset 35"):
        replay_topic(SPARK, cut, target)
    assert replay_topic(SPARK, cut | {"failOnDataLoss": "false"}, target) == [ReplayedPartition(0, 15, 50)]
    assert replay_topic(SPARK, cut, target) == [ReplayedPartition(0, 0, 50)]
