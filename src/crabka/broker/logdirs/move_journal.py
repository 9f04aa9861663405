"""The marker of a swap: a small file in the root of the target dir that says which copy of a log counts.

    <target>/move-<32 hex>.json

It is written, durably, after the controller committed that the replica is in the target and before the future log gets
its final name, and removed when the old copy has lost its own. In between a crash may leave two logs of one name. Kafka
looks at directories only and ignores the file.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.ids import TopicPartition
from crabka.vfs import read_file, write_atomic
from crabka.vfs.atomic import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from crabka.ports import FileSystem

VERSION: Final = 1
_NAME: Final = re.compile(r"^move-[0-9a-f]{32}\.json$")


class MoveMarker(NamedTuple):
    """What a marker says."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    # Ids of the log dirs, None where a dir has none.
    source_id: uuid.UUID | None
    target_id: uuid.UUID | None
    # Name of the future log's directory.
    future: str


class FoundMarker(NamedTuple):
    """A marker on disk."""

    path: str
    marker: MoveMarker


def encode_marker(marker: MoveMarker) -> bytes:
    """Return the content of a marker file."""
    (topic, partition), topic_id, source_id, target_id, future = marker
    fields = {
        "version": VERSION,
        "topic": topic,
        "partition": partition,
        "topicId": _text(topic_id),
        "source": _text(source_id),
        "target": _text(target_id),
        "future": future,
    }
    return json.dumps(fields, indent=1).encode()


def decode_marker(data: bytes) -> MoveMarker | None:
    """Return what a file says, None if it is no marker that this version understands."""
    try:
        fields = json.loads(data)
        if fields["version"] != VERSION:
            return None
        return MoveMarker(
            TopicPartition(str(fields["topic"]), int(fields["partition"])),
            _uuid(fields["topicId"]),
            _uuid(fields["source"]),
            _uuid(fields["target"]),
            str(fields["future"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def marker_path(log_dir: str, unique: uuid.UUID) -> str:
    """Return where the marker of a swap lies."""
    return f"{log_dir}/move-{unique.hex}.json"


def write_marker(fs: FileSystem, path: str, marker: MoveMarker) -> None:
    """Write a marker durably. Raises OSError."""
    write_atomic(fs, path, encode_marker(marker))


def remove_marker(fs: FileSystem, path: str) -> None:
    """Remove a marker durably; one that is not there is fine. Raises OSError."""
    if fs.exists(path):
        fs.unlink(path)
        fs.fsync_dir(path.rpartition("/")[0])


def sweep_markers(fs: FileSystem, log_dir: str) -> None:
    """Remove markers whose writing was interrupted. Raises OSError."""
    for name in fs.listdir(log_dir):
        if name.endswith(TEMPORARY_SUFFIX) and _NAME.match(name.removesuffix(TEMPORARY_SUFFIX)):
            fs.unlink(f"{log_dir}/{name}")


def find_markers(fs: FileSystem, log_dir: str) -> list[FoundMarker]:
    """Return the markers in a log dir. What cannot be read as one is left alone. Raises OSError."""
    found = []
    for name in fs.listdir(log_dir):
        if _NAME.match(name):
            marker = decode_marker(read_file(fs, f"{log_dir}/{name}"))
            if marker is not None:
                found.append(FoundMarker(f"{log_dir}/{name}", marker))
    return found


def _text(value: uuid.UUID | None) -> str | None:
    return None if value is None else str(value)


def _uuid(value: str | None) -> uuid.UUID | None:
    return None if value is None else uuid.UUID(value)
