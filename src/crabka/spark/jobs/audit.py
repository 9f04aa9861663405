"""Scrubs a whole tier in parallel: all that `crabka tier fsck` checks, with the segments read by Spark tasks.

With a cluster its metadata says what the tier must have, and changes by brokers meanwhile are no faults. Without one
the objects alone count: incomplete segments are reported when their last object is older than the grace period, and
states and orphans are unknown. What changed while the tier was read is no fault in either case.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.sync.session import LoopThread
from crabka.errors import ConfigError
from crabka.remote.backends.url import SETTING_PREFIX, storage_settings_of_url
from crabka.remote.opening import open_storage_of
from crabka.remote.scrub import TierFault, TierFaultKind, still_true, verify_partition
from crabka.remote_topic.tier_check import CheckOptions, CheckResult, TierCheck, worst_first
from crabka.remote_topic.tier_view import TierView
from crabka.runtime import SystemClock, real_runtime
from crabka.spark.access.tier_store import open_tier_store
from crabka.spark.jobs.scrub_tasks import ScrubTasks
from crabka.spark.plan.catalog.listing_catalog import load_listing_catalog
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crabka.remote.listing import TierObject
    from crabka.remote.storage_manager import RemoteStorageManager
    from crabka.remote_topic.tier_check import CheckProgress, Partitions

DEFAULT_GRACE_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Which tier is audited, against which cluster, and of which topics; all if none are named.

    `storage` has settings of the storage that do not belong into an address, such as keys.
    """

    tier_uri: str
    bootstrap: str | None = None
    cluster_settings: ClusterSettings | None = field(default=None, repr=False)
    topics: tuple[str, ...] = ()
    grace_ms: int = DEFAULT_GRACE_MS
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    def node_settings(self) -> dict[str, str]:
        """Return the storage as the settings of a node name it. Raises ConfigError."""
        more = {f"{SETTING_PREFIX}{name}": value for name, value in self.storage.items()}
        return storage_settings_of_url(self.tier_uri) | more


class NoProgress:
    """Ignores progress."""

    def metadata(self, done: int, total: int) -> None:
        """Events of the metadata topic."""

    def objects(self, listed: Iterable[TierObject]) -> Iterator[TierObject]:
        """Pass objects on."""
        return iter(listed)

    def begin_contents(self, byte_count: int) -> None:
        """The segments."""

    def contents(self, byte_count: int) -> None:
        """Bytes of segments."""


def audit_tier(spark: SparkSession, options: AuditOptions, progress: CheckProgress | None = None) -> CheckResult:
    """Check a tier; the result has the faults, worst first, and an exit code: 0 clean, 1 faults, 2 unreadable.

    Raises ConfigError, ClientNetworkError, RemoteStorageError if it cannot be checked at all.
    """
    settings = options.node_settings()
    storage = open_storage_of(settings)
    contents = ScrubTasks(spark, settings)
    try:
        if options.bootstrap is None:
            return _audit_objects(storage, options, contents, progress or NoProgress())
        return _audit_cluster(storage, options, contents, progress or NoProgress())
    finally:
        storage.close()


def _audit_cluster(
    storage: RemoteStorageManager, options: AuditOptions, contents: ScrubTasks, progress: CheckProgress
) -> CheckResult:
    runtime = real_runtime()
    thread = LoopThread("crabka-audit")

    async def run() -> CheckResult:
        async with Cluster(runtime, options.bootstrap or "", options.cluster_settings) as cluster:
            view = TierView(cluster, options.topics)
            return await TierCheck(view, storage, CheckOptions(grace_ms=options.grace_ms), contents).run(progress)

    try:
        return thread.run(run())
    finally:
        thread.close()
        runtime.threads.close()


def _audit_objects(
    storage: RemoteStorageManager, options: AuditOptions, contents: ScrubTasks, progress: CheckProgress
) -> CheckResult:
    objects = SegmentObjects(open_tier_store(options.tier_uri, options.storage))

    def wants(topic: str) -> bool:
        return not options.topics or topic in options.topics

    catalog = load_listing_catalog(objects, wants)
    partitions: Partitions = {partition: list(segments) for partition, segments in catalog.segments.items()}
    _require_topics(options.topics, catalog)
    byte_count = sum(segment.segment_size_bytes for found in partitions.values() for segment in found)
    progress.begin_contents(byte_count)
    faults = contents(partitions, progress.contents)
    for partition, segments in partitions.items():
        faults += verify_partition(storage, partition, segments)
    faults += _incomplete(catalog, SystemClock().now_ms() - options.grace_ms)
    if any(fault.segment_id is not None for fault in faults):
        after = load_listing_catalog(objects, wants)
        faults = still_true(faults, _by_id(catalog), _by_id(after))
    return CheckResult(
        partition_count=len(partitions),
        segment_count=sum(map(len, partitions.values())),
        byte_count=byte_count,
        faults=worst_first(faults),
    )


def _require_topics(topics: Sequence[str], catalog: TierCatalog) -> None:
    known = {partition.topic for partition in catalog.segments}
    known |= {found.segment_id.topic_id_partition.topic for found in catalog.unusable}
    unknown = [topic for topic in topics if topic not in known]
    if unknown:
        raise ConfigError(f"the tier has no topic {unknown[0]}")


def _incomplete(catalog: TierCatalog, latest_ms: int) -> list[TierFault]:
    """Return the segments that cannot be used, but those that lack objects and got one later: a copy is under way."""
    return [
        TierFault(
            kind=found.kind,
            detail=f"its segment cannot be used: {found.reason}",
            partition=found.segment_id.topic_id_partition,
            segment_id=found.segment_id,
            object_name=found.object_name,
        )
        for found in catalog.unusable
        if found.kind is not TierFaultKind.MISSING_OBJECT or found.newest_ms <= latest_ms
    ]


def _by_id(catalog: TierCatalog) -> dict[uuid.UUID, object]:
    found: dict[uuid.UUID, object] = {each.segment_id.id: each for each in catalog.unusable}
    return found | {each.segment_id.id: each for segments in catalog.segments.values() for each in segments}
