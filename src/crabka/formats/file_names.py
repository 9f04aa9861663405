"""Names of directories and files in a log dir, as Kafka's LogFileUtils and LocalLog spell them.

<topic>-<partition>                              a log
<topic>-<partition>.<32 hex>-delete              a log that waits for removal
<topic>-<partition>.<32 hex>-future              a log that is being moved here (KIP-113)
<topic>-<partition>.<32 hex>-stray               a log that the metadata does not place here
<20-digit offset>.log .index .timeindex .txnindex .snapshot
<20-digit end offset>-<10-digit epoch>.checkpoint  a snapshot of the metadata log (KIP-630)
<start offset>_<segment id>.index ...            an index of a remote segment, cached on this disk
"""

from __future__ import annotations

import re
import uuid
from enum import Enum
from typing import Final, NamedTuple

from crabka.ids import TopicPartition, uuid_from_text, uuid_to_text

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
# Which segments have aborted transactions: Crabka's own, Kafka ignores it.
ABORTED_CHECKPOINT: Final = "aborted-transactions-checkpoint"
METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"
BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"
REMOTE_INDEX_CACHE: Final = "remote-log-index-cache"

# Kafka keeps directory names below the usual limit of 255 bytes by cutting the topic name.
MAX_DIRECTORY_NAME: Final = 255
_MARKED_NAME: Final = re.compile(r"^(?P<name>.+)\.(?P<unique>[0-9a-f]{32})-(?P<mark>delete|future|stray)$")
_PLAIN_NAME: Final = re.compile(r"^(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d{1,10})$")
_METADATA_SNAPSHOT: Final = re.compile(r"^(\d{20})-(\d{10})\.checkpoint$")
_OFFSET_FILE: Final = re.compile(r"^(\d{20})\.(?:log|index|timeindex|txnindex|snapshot)$")


class DirectoryKind(Enum):
    """What a directory below a log dir is."""

    LOG = ""
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


class LogDirectoryName(NamedTuple):
    """The meaning of a directory name below a log dir."""

    topic_partition: TopicPartition
    kind: DirectoryKind


def offset_name(offset: int) -> str:
    """Return an offset as the stem of segment files: 20 digits."""
    return f"{offset:020d}"


def file_offset(name: str) -> int | None:
    """Return the offset in the name of a segment file or snapshot, or None if it is no such name."""
    match = _OFFSET_FILE.match(name)
    return int(match.group(1)) if match else None


def metadata_snapshot_name(end_offset: int, epoch: int) -> str:
    """Return the name of a snapshot of the metadata log."""
    return f"{end_offset:020d}-{epoch:010d}{METADATA_SNAPSHOT_SUFFIX}"


def parse_metadata_snapshot_name(name: str) -> tuple[int, int] | None:
    """Return the end offset and the epoch of a snapshot of the metadata log, or None if it is no such name."""
    match = _METADATA_SNAPSHOT.match(name)
    return (int(match[1]), int(match[2])) if match else None


def cached_index_name(start_offset: int, segment_id: uuid.UUID, suffix: str) -> str:
    """Return the name of an index of a remote segment in `remote-log-index-cache`."""
    return f"{start_offset}_{uuid_to_text(segment_id)}{suffix}"


def parse_cached_index_name(name: str) -> tuple[uuid.UUID, str]:
    """Return the segment id and the suffix of a cached index. Raises ValueError for another name."""
    stem, dot, suffix = name.rpartition(".")
    return uuid_from_text(stem.partition("_")[2]), dot + suffix


def marked_name(topic_partition: TopicPartition, kind: DirectoryKind, unique: uuid.UUID) -> str:
    """Return the name of a log directory that is deleted, future or stray."""
    suffix = f"-{topic_partition.partition}.{unique.hex}-{kind.value}"
    return topic_partition.topic[: MAX_DIRECTORY_NAME - len(suffix)] + suffix


def parse_directory_name(name: str) -> LogDirectoryName | None:
    """Return what a directory below a log dir holds, or None if it is no log (`lost+found`, caches)."""
    kind = DirectoryKind.LOG
    marked = _MARKED_NAME.match(name)
    if marked:
        name = marked.group("name")
        kind = DirectoryKind(marked.group("mark"))
    plain = _PLAIN_NAME.match(name)
    if plain is None:
        return None
    return LogDirectoryName(TopicPartition(plain.group("topic"), int(plain.group("partition"))), kind)
