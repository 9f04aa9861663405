"""Names in a tier: those of Kafka's LocalTieredStorage, on disk and, behind a prefix, in buckets.

    <topic>-<partition>-<topic id>/<base offset, 20 digits>-<segment id>.{log,index,timeindex,snapshot,...}

Both directions, so that a tier can be listed without its metadata. Knows neither files nor stores.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from crabka.ids import uuid_from_text, uuid_to_text
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata, TopicIdPartition

LOG_SUFFIX = ".log"
SUFFIXES = (LOG_SUFFIX, *(index_type.value for index_type in IndexType))

_UUID = r"[A-Za-z0-9_-]{22}"
# 22 characters of six bits hold an id of 128 bits and four zeros.
_LAST_OF_UUID = "AQgw"
# The id has a fixed length, so dashes in it and in the topic do no harm.
_DIRECTORY = re.compile(rf"([A-Za-z0-9._-]+)-(0|[1-9][0-9]*)-({_UUID})")
_NAME = re.compile(rf"([0-9]{{20}})-({_UUID})(\.[a-z_]+)")
_INDEX_TYPES = {index_type.value: index_type for index_type in IndexType}


@dataclass(frozen=True, slots=True)
class ObjectName:
    """What the name of an object says. `index_type` is None for the batches themselves."""

    base_offset: int
    segment_id: uuid.UUID
    index_type: IndexType | None

    def __str__(self) -> str:
        suffix = LOG_SUFFIX if self.index_type is None else self.index_type.value
        return f"{self.base_offset:020d}-{uuid_to_text(self.segment_id)}{suffix}"


def partition_directory(partition: TopicIdPartition) -> str:
    """Return the directory of a partition's segments."""
    return f"{partition.topic}-{partition.partition}-{uuid_to_text(partition.topic_id)}"


def parse_partition_directory(name: str) -> TopicIdPartition:
    """Return whose segments a directory holds. Raises ValueError for a name that no partition has."""
    match = _DIRECTORY.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not the directory of a partition in a tier")
    topic, partition, topic_id = match.groups()
    return TopicIdPartition(_uuid(topic_id), topic, int(partition))


def parse_object_name(name: str) -> ObjectName:
    """Return what an object holds. Raises ValueError for a name that no part of a segment has."""
    match = _NAME.fullmatch(name)
    if match is None or match[3] not in SUFFIXES:
        raise ValueError(f"{name!r} is not part of a segment in a tier")
    return ObjectName(int(match[1]), _uuid(match[2]), _INDEX_TYPES.get(match[3]))


def object_path(metadata: RemoteLogSegmentMetadata, index_type: IndexType | None = None) -> str:
    """Return where an index, or without one the batches, of a segment lie below the root of a tier."""
    name = ObjectName(metadata.start_offset, metadata.segment_id.id, index_type)
    return f"{partition_directory(metadata.topic_id_partition)}/{name}"


def index_paths(metadata: RemoteLogSegmentMetadata) -> list[str]:
    """Return where all that may accompany the batches of a segment lies."""
    return [object_path(metadata, index_type) for index_type in IndexType]


def _uuid(text: str) -> uuid.UUID:
    if text[-1] not in _LAST_OF_UUID:  # it has bits to spare: another name for the same id
        raise ValueError(f"{text!r} is not how an id is written")
    return uuid_from_text(text)
