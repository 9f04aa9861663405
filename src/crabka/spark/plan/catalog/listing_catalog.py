"""The catalog from the objects alone: no broker, no metadata.

A segment counts if its batches, offset index, time index, producer snapshot and leader epochs are there and its last
batch is whole; all others are reported and skipped. What a segment holds is read from its objects once and kept on
disk, since objects of a segment never change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.object_names import parse_object_name
from crabka.ids import ZERO_UUID
from crabka.remote.inmemory import PartitionDump, RlmmCacheDump
from crabka.remote.layout import parse_partition_directory
from crabka.remote.scrub.faults import TierFaultKind
from crabka.remote.segments import IndexType, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from crabka.remote_topic.snapshot import Snapshot
from crabka.spark.access.tier_store import ListedObject, ObjectMissingError, present
from crabka.spark.plan.catalog.cache_files import cache_path, load_cache, store_cache
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segment_probe import ListedSegment, SegmentProbe, UnusableSegmentError
from crabka.spark.plan.catalog.segments import TierCatalog, UnusableSegment

_REQUIRED: Final = (
    LOG_SUFFIX,
    IndexType.OFFSET.value,
    IndexType.TIMESTAMP.value,
    IndexType.PRODUCER_SNAPSHOT.value,
    IndexType.LEADER_EPOCH.value,
)

_PARTS: Final[Mapping[str, IndexType | None]] = {LOG_SUFFIX: None} | {part.value: part for part in IndexType}
_SUFFIXES: Final = frozenset(_PARTS)
_REQUIRED_SET: Final = frozenset(_REQUIRED)


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


def _list(objects: SegmentObjects, directory: str, partition: TopicIdPartition) -> list[ListedSegment]:
    by_path: dict[str, dict[str, ListedObject]] = defaultdict(dict)
    for stored in objects.store.list(directory):
        # Objects of one segment have names that differ from the first dot on; topics may have dots, too.
        key = stored.key
        dot = key.find(".", len(directory))
        by_path[key[:dot]][key[dot:]] = stored
    found: list[ListedSegment] = []
    for path, parts in by_path.items():
        try:
            name = parse_object_name(path[len(directory) + 1 :] + LOG_SUFFIX)
        except ValueError:
            continue  # not everything in a tier is a segment's
        if not parts.keys() <= _SUFFIXES:
            parts = {suffix: parts[suffix] for suffix in _SUFFIXES & parts.keys()}
        if parts:  # a copy that is under way may have nothing but temporary files
            found.append(ListedSegment(partition, name.base_offset, name.segment_id, path, parts))
    return sorted(found, key=lambda each: each.base_offset)


def _judge_all(
    objects: SegmentObjects, found: Sequence[ListedSegment], known: Mapping[int, RemoteLogSegmentMetadata]
) -> list[RemoteLogSegmentMetadata | UnusableSegment]:
    """Return what segments hold; only those that are new have to be asked for."""
    verdicts = [_judge(each, known) for each in found]
    probe = SegmentProbe(objects.store)
    new = [each for each, verdict in zip(found, verdicts, strict=True) if verdict is None]
    probed = iter(objects.for_all(new, lambda each: _probe(each, probe)))
    return [next(probed) if verdict is None else verdict for verdict in verdicts]


def _judge(
    found: ListedSegment, known: Mapping[int, RemoteLogSegmentMetadata]
) -> RemoteLogSegmentMetadata | UnusableSegment | None:
    """Return what is known of a segment without reading its objects; None if they have to be read."""
    if not found.parts.keys() >= _REQUIRED_SET:
        missing = [suffix for suffix in _REQUIRED if suffix not in found.parts]
        reason = f"it has no {', '.join(missing)}"
        return _unusable(found, reason, TierFaultKind.MISSING_OBJECT, _PARTS[missing[0]])
    cached = known.get(found.segment_id.int)
    try:
        is_known = cached is not None and cached.segment_size_bytes == found.parts[LOG_SUFFIX].size_bytes
    except ObjectMissingError:
        is_known = False  # deleted since: the probe says so
    return cached if is_known else None


def _probe(found: ListedSegment, probe: SegmentProbe) -> RemoteLogSegmentMetadata | UnusableSegment:
    try:
        return probe.read(found)
    except UnusableSegmentError as error:
        return _unusable(found, str(error), error.kind, error.part)


def _unusable(found: ListedSegment, reason: str, kind: TierFaultKind, part: IndexType | None) -> UnusableSegment:
    return UnusableSegment(
        segment_id=RemoteLogSegmentId(found.partition, found.segment_id),
        base_offset=found.base_offset,
        kind=kind,
        reason=reason,
        object_name=found.path + (LOG_SUFFIX if part is None else part.value),
        newest_ms=max((modified_ms for _, modified_ms in present(found.parts.values()).values()), default=-1),
    )


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
    dump = RlmmCacheDump(tuple(dumps))
    store_cache(path, Snapshot(topic_id=ZERO_UUID, partition_count=1, partition=0, next_offset=0, dump=dump))
