"""The options of an audit, and an audit whose tasks run in this thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.local import ROOT_NAME
from crabka.remote.layout import object_path
from crabka.remote.scrub import TierFault, TierFaultKind
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.spark.jobs.audit import AuditOptions, NoProgress, audit_tier
from crabka.spark.jobs.scrub_tasks import Partitions, ScrubTasks
from tests.support.clusters.loopback import loopback_cluster
from tests.support.clusters.memory import MemoryCluster
from tests.support.spark.one_thread import OneThreadSpark
from tests.support.tier_topic.publishing import publish_events
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import PlantedTier, batches, two_segments

pytestmark = [
    pytest.mark.usefixtures("plan_cache"),
    pytest.mark.allow_leaks("the library of object stores keeps descriptors until the process ends"),
]

SPARK = cast("Any", OneThreadSpark())


def test_settings_of_the_storage_come_from_the_address_and_beside_it() -> None:
    options = AuditOptions(tier_uri="s3://bucket/prefix", storage={"secret.access.key": "secret"})
    settings = options.node_settings()
    assert settings["remote.log.storage.manager.class.name"] == "s3"
    assert settings["rsm.config.bucket"] == "bucket"
    assert settings["rsm.config.secret.access.key"] == "secret"
    assert "secret" not in repr(options).replace("secrets", "")


def test_tier_is_audited_from_its_objects_alone(tmp_path: Path) -> None:
    tier = two_segments()
    result = audit_tier(SPARK, AuditOptions(tier_uri=write_tier(tmp_path, tier)))
    assert (result.exit_code, result.partition_count, result.segment_count) == (0, 1, 2)
    tier.flip(tier.segments[0], None, -9)
    tier.put(tier.segments[0], IndexType.PRODUCER_SNAPSHOT, b"short")
    result = audit_tier(SPARK, AuditOptions(tier_uri=write_tier(tmp_path, tier)))
    assert [fault.kind for fault in result.faults] == [TierFaultKind.BAD_INDEX, TierFaultKind.CORRUPT_BATCH]
    assert result.exit_code == 1


def test_incomplete_segments_are_reported_without_metadata(tmp_path: Path) -> None:
    tier = two_segments()
    tier.remove(tier.segments[1], IndexType.LEADER_EPOCH)
    uri = write_tier(tmp_path, tier)
    (fault,) = audit_tier(SPARK, AuditOptions(tier_uri=uri, grace_ms=0)).faults
    assert fault.kind is TierFaultKind.MISSING_OBJECT
    assert fault.place == object_path(tier.segments[1], IndexType.LEADER_EPOCH)
    assert fault.segment_id == tier.segments[1].segment_id
    result = audit_tier(SPARK, AuditOptions(tier_uri=uri))
    assert (result.faults, result.exit_code) == ([], 0), "it may be a copy that is under way"


@pytest.mark.parametrize(
    ("part", "data", "kind"),
    [
        (None, None, TierFaultKind.WRONG_SIZE),
        (IndexType.OFFSET, b"\0\0\0\5\0\0\0\7", TierFaultKind.BAD_INDEX),
        (IndexType.LEADER_EPOCH, b"", TierFaultKind.BAD_INDEX),
    ],
)
def test_what_makes_a_segment_unusable_is_reported_with_its_object(
    tmp_path: Path, part: IndexType | None, data: bytes | None, kind: TierFaultKind
) -> None:
    tier = two_segments()
    segment = tier.segments[1]
    tier.put(segment, part, tier.get(segment, part)[:-50] if data is None else data)
    (fault,) = audit_tier(SPARK, AuditOptions(tier_uri=write_tier(tmp_path, tier))).faults
    assert (fault.kind, fault.place) == (kind, object_path(segment, part))


def test_what_is_deleted_meanwhile_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One segment vanishes while it is read, another one was half gone before."""
    tier = PlantedTier()
    for first in (0, 10, 20):
        tier.add(batches(first, 2), [(0, 0)])
    tier.remove(tier.segments[0], None)
    uri = write_tier(tmp_path, tier)
    check = ScrubTasks.__call__

    def check_while_retention_works(
        tasks: ScrubTasks, partitions: Partitions, on_bytes: Callable[[int], None]
    ) -> list[TierFault]:
        for segment in tier.segments[:2]:
            for part in (None, *IndexType):
                (tmp_path / ROOT_NAME / object_path(segment, part)).unlink(missing_ok=True)
        return check(tasks, partitions, on_bytes)

    monkeypatch.setattr(ScrubTasks, "__call__", check_while_retention_works)
    result = audit_tier(SPARK, AuditOptions(tier_uri=uri, grace_ms=0))
    assert (result.faults, result.segment_count) == ([], 2)


def test_topic_that_the_tier_does_not_have_is_refused(tmp_path: Path) -> None:
    uri = write_tier(tmp_path, two_segments())
    with pytest.raises(ConfigError, match="the tier has no topic ordrs"):
        audit_tier(SPARK, AuditOptions(tier_uri=uri, topics=("orders", "ordrs")))


def prepare(cluster: MemoryCluster) -> PlantedTier:
    cluster.create_topic(METADATA_TOPIC, 2)
    cluster.create_topic("orders")
    return two_segments(TopicIdPartition(cluster.topic_ids["orders"], "orders", 0))


def test_metadata_of_a_cluster_says_what_has_to_be_there(tmp_path: Path) -> None:
    with loopback_cluster() as (cluster, bootstrap):
        tier = prepare(cluster)
        publish_events(cluster, tier)
        uri = write_tier(tmp_path, tier)
        options = AuditOptions(tier_uri=uri, bootstrap=bootstrap, grace_ms=0)
        assert audit_tier(SPARK, options, NoProgress()).faults == []
        (tmp_path / "kafka-tiered-storage" / next(iter(tier.storage.objects))).unlink()
        result = audit_tier(SPARK, options)
        assert TierFaultKind.MISSING_OBJECT in {fault.kind for fault in result.faults}
        assert result.exit_code == 1


def test_tier_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no tier"):
        audit_tier(SPARK, AuditOptions(tier_uri=f"file://{tmp_path}/nowhere"))
