"""An audit by Spark tasks: every planted fault is found, and nothing on a clean tier."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabka.cli.main import execute
from crabka.remote.scrub import TierFaultKind
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.spark.jobs.audit import AuditOptions, audit_tier
from tests.support.clusters.loopback import loopback_cluster
from tests.support.recorded.files import GOLDEN
from tests.support.tier_topic.publishing import publish_events
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import PlantedTier, batches, two_segments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def truncate(tier: PlantedTier) -> None:
    segment = tier.segments[0]
    tier.put(segment, None, tier.get(segment, None)[:-10])


def overlap_epochs(tier: PlantedTier) -> None:
    """Let epoch 2 begin at another place than in the segment before."""
    partition = tier.segments[0].topic_id_partition
    tier.add(batches(60, 2, epoch=2) + batches(70, 1, epoch=3), [(0, 0), (2, 62), (3, 70)], partition=partition)


def leave_orphan(tier: PlantedTier) -> None:
    events = len(tier.events)
    tier.add(batches(60, 1, epoch=2), [(0, 0), (2, 45)], partition=tier.segments[0].topic_id_partition)
    del tier.events[events:]


FAULTS: dict[str, tuple[TierFaultKind | None, Callable[[PlantedTier], None]]] = {
    "clean": (None, lambda _tier: None),
    "missing": (TierFaultKind.MISSING_OBJECT, lambda tier: tier.remove(tier.segments[0], IndexType.TIMESTAMP)),
    "flipped": (TierFaultKind.CORRUPT_BATCH, lambda tier: tier.flip(tier.segments[1], None, -9)),
    "truncated": (TierFaultKind.WRONG_SIZE, truncate),
    "orphan": (TierFaultKind.ORPHAN_OBJECT, leave_orphan),
    "epochs": (TierFaultKind.EPOCH_CONFLICT, overlap_epochs),
    "index": (TierFaultKind.BAD_INDEX, lambda tier: tier.put(tier.segments[0], IndexType.OFFSET, bytes(7))),
    "state": (TierFaultKind.ILLEGAL_STATE, lambda tier: tier.apply(tier.segments[0])),
}


@pytest.mark.timeout(600)
def test_every_planted_fault_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic(METADATA_TOPIC, 2)
        for number, (name, (_, spoil)) in enumerate(FAULTS.items(), start=1):
            cluster.create_topic(name)
            tier = two_segments(TopicIdPartition(cluster.topic_ids[name], name, 0), 100 * number)
            spoil(tier)
            publish_events(cluster, tier)
            uri = write_tier(tmp_path, tier)
        result = audit_tier(spark, AuditOptions(tier_uri=uri, bootstrap=bootstrap, grace_ms=0))
    found: dict[str, set[TierFaultKind]] = {name: set() for name in FAULTS}
    for fault in result.faults:
        assert fault.partition is not None
        found[fault.partition.topic].add(fault.kind)
    for name, (kind, _) in FAULTS.items():
        assert (found[name] == set()) if kind is None else (kind in found[name]), (name, result.faults)
    assert result.exit_code == 1


@pytest.mark.timeout(600)
def test_tier_of_apache_kafka_is_clean(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert spark.version
    shutil.copytree(GOLDEN / "single" / "tier", tmp_path / "tier")
    assert execute(["audit", "--tier", f"file://{tmp_path}/tier", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["clean"], report["segments"], report["faults"]) == (True, 23, [])
