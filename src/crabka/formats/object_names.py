"""Names in a tier: those of Kafka's LocalTieredStorage, on disk and, below a prefix, in buckets.

    <topic>-<partition>-<topic id>/<base offset, 20 digits>-<segment id>.{log,index,timeindex,snapshot,...}

Both directions, so that a tier can be listed without its metadata. A name has one spelling: a directory or file with
another spelling of the same id is not part of the tier.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, NamedTuple

from crabka.formats.file_names import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from crabka.ids import uuid_from_text, uuid_to_text

LEADER_EPOCH_SUFFIX: Final = ".leader_epoch_checkpoint"
SUFFIXES: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    LEADER_EPOCH_SUFFIX,
)

_UUID: Final = r"[A-Za-z0-9_-]{22}"
# 22 characters of six bits hold an id of 128 bits and four zeros.
_LAST_OF_UUID: Final = "AQgw"
# The id has a fixed length, so dashes in it and in the topic do no harm.
_DIRECTORY: Final = re.compile(rf"([A-Za-z0-9._-]+)-(0|[1-9][0-9]*)-({_UUID})")
_NAME: Final = re.compile(rf"([0-9]{{20}})-({_UUID})(\.[a-z_]+)")


class DirectoryName(NamedTuple):
    """The partition whose segments a directory of a tier holds."""

    topic: str
    partition: int
    topic_id: uuid.UUID

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{uuid_to_text(self.topic_id)}"


class ObjectName(NamedTuple):
    """The segment and the part of it that an object holds; `.log` are the batches."""

    base_offset: int
    segment_id: uuid.UUID
    suffix: str

    def __str__(self) -> str:
        return f"{self.base_offset:020d}-{uuid_to_text(self.segment_id)}{self.suffix}"


def parse_directory_name(name: str) -> DirectoryName:
    """Return the partition of a directory. Raises ValueError for a name that no partition has."""
    match = _DIRECTORY.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not the directory of a partition in a tier")
    return DirectoryName(match[1], int(match[2]), _uuid(match[3]))


def parse_object_name(name: str) -> ObjectName:
    """Return what an object holds. Raises ValueError for a name that no part of a segment has."""
    match = _NAME.fullmatch(name)
    if match is None or match[3] not in SUFFIXES:
        raise ValueError(f"{name!r} is not part of a segment in a tier")
    return ObjectName(int(match[1]), _uuid(match[2]), match[3])


def _uuid(text: str) -> uuid.UUID:
    if text[-1] not in _LAST_OF_UUID:  # it has bits to spare: another spelling of the same id
        raise ValueError(f"{text!r} is not how an id is written")
    return uuid_from_text(text)
