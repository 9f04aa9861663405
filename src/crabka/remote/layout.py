"""Where the objects of a segment lie in a tier. The names are in `formats.object_names`."""

from __future__ import annotations

from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.object_names import DirectoryName, ObjectName, parse_directory_name
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
