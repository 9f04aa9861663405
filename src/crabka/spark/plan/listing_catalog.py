"""The catalog from the objects alone: no broker, no metadata.

A segment counts if its batches, offset index, time index, producer snapshot and leader epochs are there and its last
batch is whole; all others are named and passed over. What a segment holds is read from its objects once and kept on
disk, since objects of a segment never change.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from crabka.ids import ZERO_UUID
from crabka.remote.inmemory import PartitionDump
from crabka.remote.layout import (
    LOG_SUFFIX,
    ObjectName,
    parse_object_name,
    parse_partition_directory,
    partition_directory,
)
from crabka.remote.scrub.faults import TierFaultKind
from crabka.remote.segments import IndexType, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from crabka.remote_topic.snapshot import Snapshot
from crabka.spark.plan.cache_files import cache_path, dump_of, load_cache, store_cache
from crabka.spark.plan.catalog import TierCatalog, UnusableSegment
from crabka.spark.plan.segment_objects import SegmentObjects
from crabka.spark.plan.segment_probe import SegmentProbe, UnusableSegmentError

_REQUIRED: Final = (
    None,
    IndexType.OFFSET,
    IndexType.TIMESTAMP,
    IndexType.PRODUCER_SNAPSHOT,
    IndexType.LEADER_EPOCH,
)

_KINDS: Final[Mapping[str, IndexType | None]] = {LOG_SUFFIX: None} | {kind.value: kind for kind in IndexType}


class _Found(NamedTuple):
    """The objects of one segment: their sizes by kind; None is the batches. `newest_ms` is when the last one came."""

    partition: TopicIdPartition
    base_offset: int
    segment_id: uuid.UUID
    sizes: Mapping[IndexType | None, int]
    newest_ms: int

    def unusable(self, reason: str, kind: TierFaultKind, part: IndexType | None) -> UnusableSegment:
        name = ObjectName(self.base_offset, self.segment_id, part)
        return UnusableSegment(
            segment_id=RemoteLogSegmentId(self.partition, self.segment_id),
            base_offset=self.base_offset,
            kind=kind,
            reason=reason,
            object_name=f"{partition_directory(self.partition)}/{name}",
            newest_ms=self.newest_ms,
        )


def load_listing_catalog(objects: SegmentObjects, wants: Callable[[str], bool]) -> TierCatalog:
    """Return the segments of the topics that are wanted, as they lie in the store now."""
    stored = _directories(objects)
    directories = {name: partition for name, partition in stored.items() if wants(partition.topic)}
    path = cache_path("listing", objects.store.location)
    known = _known_segments(load_cache(path))
    segments: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}
    unusable: list[UnusableSegment] = []
    found = [each for listed in objects.for_all(directories.items(), lambda d: _list(objects, *d)) for each in listed]
    for each, verdict in zip(found, _judge_all(objects, found, known), strict=True):
        if isinstance(verdict, UnusableSegment):
            unusable.append(verdict)
        else:
            segments.setdefault(each.partition, []).append(verdict)
    _store(path, known, segments, others=set(stored.values()) - set(directories.values()))
    return TierCatalog(segments, tuple(unusable))


def _directories(objects: SegmentObjects) -> dict[str, TopicIdPartition]:
    """Return all partitions of the tier by their directories."""
    found: dict[str, TopicIdPartition] = {}
    for name in objects.store.directories():
        try:
            found[name] = parse_partition_directory(name)
        except ValueError:
            continue  # not everything in a bucket is ours
    return found


def _list(objects: SegmentObjects, directory: str, partition: TopicIdPartition) -> list[_Found]:
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    newest_ms: dict[str, int] = defaultdict(int)
    for stored in objects.store.list(directory):
        # Objects of one segment have names that differ in what follows the dot.
        stem, dot, suffix = stored.key.rpartition("/")[2].partition(".")
        sizes[stem][dot + suffix] = stored.size_bytes
        newest_ms[stem] = max(newest_ms[stem], stored.modified_ms)
    found: list[_Found] = []
    for stem, by_suffix in sizes.items():
        kinds = {_KINDS[suffix]: size_bytes for suffix, size_bytes in by_suffix.items() if suffix in _KINDS}
        try:
            name = parse_object_name(stem + LOG_SUFFIX)
        except ValueError:
            continue  # not everything in a tier is a segment's
        if kinds:  # a copy that is under way may have nothing but temporary files
            found.append(_Found(partition, name.base_offset, name.segment_id, kinds, newest_ms[stem]))
    return sorted(found, key=lambda each: each.base_offset)


def _judge_all(
    objects: SegmentObjects, found: Sequence[_Found], known: Mapping[int, RemoteLogSegmentMetadata]
) -> list[RemoteLogSegmentMetadata | UnusableSegment]:
    """Return what segments hold; only those that are new have to be asked for."""
    verdicts = [_judge(each, known) for each in found]
    probe = SegmentProbe(objects.store)
    new = [each for each, verdict in zip(found, verdicts, strict=True) if verdict is None]
    probed = iter(objects.for_all(new, lambda each: _probe(each, probe)))
    return [next(probed) if verdict is None else verdict for verdict in verdicts]


def _judge(
    found: _Found, known: Mapping[int, RemoteLogSegmentMetadata]
) -> RemoteLogSegmentMetadata | UnusableSegment | None:
    """Return what is known of a segment without reading its objects; None if they have to be read."""
    missing = [kind for kind in _REQUIRED if kind not in found.sizes]
    if missing:
        names = ", ".join(".log" if kind is None else kind.value for kind in missing)
        return found.unusable(f"it has no {names}", TierFaultKind.MISSING_OBJECT, missing[0])
    cached = known.get(found.segment_id.int)
    return cached if cached is not None and cached.segment_size_bytes == found.sizes[None] else None


def _probe(found: _Found, probe: SegmentProbe) -> RemoteLogSegmentMetadata | UnusableSegment:
    try:
        return probe.read(found.partition, found.segment_id, found.base_offset, found.sizes)
    except UnusableSegmentError as error:
        return found.unusable(str(error), error.kind, error.part)


def _known_segments(snapshot: Snapshot | None) -> dict[int, RemoteLogSegmentMetadata]:
    dumps = () if snapshot is None else snapshot.dump.partitions
    return {segment.segment_id.id.int: segment for dump in dumps for segment in dump.segments}


def _store(
    path: Path,
    known: Mapping[int, RemoteLogSegmentMetadata],
    segments: Mapping[TopicIdPartition, Iterable[RemoteLogSegmentMetadata]],
    *,
    others: Collection[TopicIdPartition],
) -> None:
    """Keep what was found in the listed partitions, and what was known of others that the tier still has."""
    kept = {key: segment for key, segment in known.items() if segment.topic_id_partition in others}
    kept |= {segment.segment_id.id.int: segment for found in segments.values() for segment in found}
    if kept == known:
        return
    by_partition: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = defaultdict(list)
    for segment in kept.values():
        by_partition[segment.topic_id_partition].append(segment)
    dumps = [PartitionDump(topic_id_partition=each, segments=tuple(found)) for each, found in by_partition.items()]
    store_cache(path, Snapshot(topic_id=ZERO_UUID, partition_count=1, partition=0, next_offset=0, dump=dump_of(*dumps)))
