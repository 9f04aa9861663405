"""Compares the objects of a tier with its metadata: missing, wrong in size, or unknown."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.object_names import ObjectName, parse_object_name
from crabka.remote.backends.local import TEMPORARY_SUFFIX
from crabka.remote.errors import InvalidRangeError, RemoteStorageError, SegmentNotFoundError, TruncatedObjectError
from crabka.remote.layout import (
    object_path,
    parse_partition_directory,
    partition_directory,
)
from crabka.remote.scrub.faults import TierFault, TierFaultKind
from crabka.remote.segments import IndexType, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition

if TYPE_CHECKING:
    from crabka.remote.listing import TierObject
    from crabka.remote.scrub.history import TierHistory
    from crabka.remote.storage_manager import RemoteStorageManager


class OrphanSegment(NamedTuple):
    """An upload with objects in the tier, and without metadata."""

    partition: TopicIdPartition
    segment_id: uuid.UUID
    base_offset: int

    @property
    def name(self) -> str:
        """The names of its objects, with a star for what differs."""
        return object_path(self.as_metadata()).removesuffix(".log") + ".*"

    def as_metadata(self) -> RemoteLogSegmentMetadata:
        """Return just enough to delete it with RemoteStorageManager.delete_log_segment_data."""
        return RemoteLogSegmentMetadata(
            segment_id=RemoteLogSegmentId(self.partition, self.segment_id),
            start_offset=self.base_offset,
            end_offset=self.base_offset,
            max_timestamp_ms=-1,
            broker_id=-1,
            event_timestamp_ms=-1,
            segment_size_bytes=0,
            leader_epochs=((0, self.base_offset),),
        )


@dataclass(slots=True)
class ObjectFindings:
    """What the comparison found."""

    faults: list[TierFault] = field(default_factory=list)
    orphans: list[OrphanSegment] = field(default_factory=list)
    object_count: int = 0
    byte_count: int = 0


@dataclass(slots=True)
class _Litter:
    """Objects of one upload without metadata."""

    reason: str
    object_count: int = 0
    byte_count: int = 0
    newest_ms: int = 0


def check_objects(history: TierHistory, objects: Iterable[TierObject], *, now_ms: int, grace_ms: int) -> ObjectFindings:
    """Compare a listing that was made after the history was read; all finished segments have to be in it.

    Objects without metadata that are younger than the grace period may belong to a segment that is just being
    copied, and are passed over.
    """
    findings = ObjectFindings()
    missing = {path: segment for segment in history.finished() for path in expected_paths(segment)}
    litter: dict[OrphanSegment, _Litter] = {}
    for found in objects:
        findings.object_count += 1
        findings.byte_count += found.size_bytes
        segment = missing.pop(_path(found), None)
        if segment is not None:
            findings.faults += _check_size(segment, found)
        elif (parsed := _parse(found)) is None:
            findings.faults.append(_foreign(found))
        elif (reason := _why_orphan(history, found, parsed[1])) is not None:
            orphan = OrphanSegment(parsed[0], parsed[1].segment_id, parsed[1].base_offset)
            heap = litter.setdefault(orphan, _Litter(reason))
            heap.object_count += 1
            heap.byte_count += found.size_bytes
            heap.newest_ms = max(heap.newest_ms, found.modified_ms)
    for orphan, heap in litter.items():
        if heap.newest_ms <= now_ms - grace_ms:
            findings.orphans.append(orphan)
            findings.faults.append(_orphan(orphan, heap))
    findings.faults += [_missing(segment, path) for path, segment in missing.items()]
    return findings


def verify_segment(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> Iterator[TierFault]:
    """Yield what is missing of a finished segment, by asking for it: for storages that cannot list."""
    for index_type in _expected_indexes(metadata):
        try:
            storage.fetch_index(metadata, index_type)
        except RemoteStorageError as error:
            yield _of_error(metadata, error, index_type)
    last = max(metadata.segment_size_bytes - 1, 0)
    try:
        storage.fetch_log_segment(metadata, last, last)
    except RemoteStorageError as error:
        yield _of_error(metadata, error, None)


def expected_paths(metadata: RemoteLogSegmentMetadata) -> Iterator[str]:
    """Yield the objects that a finished segment consists of."""
    yield object_path(metadata)
    for index_type in _expected_indexes(metadata):
        yield object_path(metadata, index_type)


def _expected_indexes(metadata: RemoteLogSegmentMetadata) -> list[IndexType]:
    return [each for each in IndexType if each is not IndexType.TRANSACTION or not metadata.txn_index_empty]


def _path(found: TierObject) -> str:
    return f"{found.partition_directory}/{found.name}" if found.partition_directory else found.name


def _parse(found: TierObject) -> tuple[TopicIdPartition, ObjectName] | None:
    try:
        # A directory has files of uploads that are under way or were cut short.
        name = parse_object_name(found.name.removesuffix(TEMPORARY_SUFFIX))
        return parse_partition_directory(found.partition_directory), name
    except ValueError:
        return None


def _why_orphan(history: TierHistory, found: TierObject, name: ObjectName) -> str | None:
    """Return why an object is not part of the tier, None if it is."""
    segment = history.segments.get(name.segment_id)
    if segment is None:
        return "its segment was deleted" if history.is_gone(name.segment_id) else "there is no metadata of its segment"
    directory = partition_directory(segment.topic_id_partition)
    if found.partition_directory != directory or name.base_offset != segment.start_offset:
        return f"its segment lies in {directory} and begins at {segment.start_offset}"
    return None


def _check_size(segment: RemoteLogSegmentMetadata, found: TierObject) -> Iterator[TierFault]:
    if parse_object_name(found.name).suffix == LOG_SUFFIX and found.size_bytes != segment.segment_size_bytes:
        detail = f"has {found.size_bytes} bytes, the metadata says {segment.segment_size_bytes}"
        yield _of_segment(TierFaultKind.WRONG_SIZE, segment, _path(found), detail)


def _missing(segment: RemoteLogSegmentMetadata, path: str) -> TierFault:
    detail = f"is not there; its segment holds offsets {segment.start_offset}..{segment.end_offset}"
    return _of_segment(TierFaultKind.MISSING_OBJECT, segment, path, detail)


def _of_error(metadata: RemoteLogSegmentMetadata, error: RemoteStorageError, index_type: IndexType | None) -> TierFault:
    path = object_path(metadata, index_type)
    match error:
        case SegmentNotFoundError():
            return _missing(metadata, path)
        case InvalidRangeError() | TruncatedObjectError():
            detail = f"is shorter than {metadata.segment_size_bytes} bytes"
            return _of_segment(TierFaultKind.WRONG_SIZE, metadata, path, detail)
    return _of_segment(TierFaultKind.UNREADABLE, metadata, path, str(error))


def _of_segment(kind: TierFaultKind, segment: RemoteLogSegmentMetadata, name: str, detail: str) -> TierFault:
    return TierFault(
        kind=kind,
        detail=detail,
        partition=segment.topic_id_partition,
        segment_id=segment.segment_id,
        object_name=name,
    )


def _orphan(orphan: OrphanSegment, heap: _Litter) -> TierFault:
    return TierFault(
        kind=TierFaultKind.ORPHAN_OBJECT,
        detail=f"{heap.reason}; {heap.object_count} objects, {heap.byte_count} bytes",
        partition=orphan.partition,
        object_name=orphan.name,
    )


def _foreign(found: TierObject) -> TierFault:
    detail = "is no part of a segment"
    return TierFault(kind=TierFaultKind.FOREIGN_OBJECT, detail=detail, object_name=_path(found))
