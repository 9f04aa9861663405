"""Where the objects and bytes of a segment lie in a tier; the same for every storage. Names: `formats.object_names`."""

from __future__ import annotations

from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.object_names import DirectoryName, ObjectName, parse_directory_name
from crabka.remote.errors import InvalidRangeError
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata, TopicIdPartition


def partition_directory(partition: TopicIdPartition) -> str:
    """Return the directory of a partition's segments."""
    return str(DirectoryName(partition.topic, partition.partition, partition.topic_id))


def parse_partition_directory(name: str) -> TopicIdPartition:
    """Return whose segments a directory holds. Raises ValueError for a name that no partition has."""
    found = parse_directory_name(name)
    return TopicIdPartition(found.topic_id, found.topic, found.partition)


def object_path(metadata: RemoteLogSegmentMetadata, index_type: IndexType | None = None) -> str:
    """Return where an index, or without one the batches, of a segment lie below the root of a tier."""
    suffix = LOG_SUFFIX if index_type is None else index_type.value
    name = ObjectName(metadata.start_offset, metadata.segment_id.id, suffix)
    return f"{partition_directory(metadata.topic_id_partition)}/{name}"


def index_paths(metadata: RemoteLogSegmentMetadata) -> list[str]:
    """Return where all that may accompany the batches of a segment lies."""
    return [object_path(metadata, index_type) for index_type in IndexType]


def positions(metadata: RemoteLogSegmentMetadata, start: int, end: int | None) -> range:
    """Return the positions from `start` to `end`, both included, that exist in a segment.

    Raises InvalidRangeError for a start after the end of the segment and for an end before the start.
    """
    size = metadata.segment_size_bytes
    if not 0 <= start <= size:
        raise InvalidRangeError(f"position {start} is not in {metadata.segment_id}, which has {size} bytes")
    if end is None:
        return range(start, size)
    if end < start:
        raise InvalidRangeError(f"{metadata.segment_id} cannot be read from {start} back to {end}")
    return range(start, min(end + 1, size))
