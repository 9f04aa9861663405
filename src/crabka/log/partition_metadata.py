"""The file `partition.metadata`: which topic id a log directory belongs to (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError
from crabka.ids import uuid_from_text, uuid_to_text
from crabka.vfs import read_file

if TYPE_CHECKING:
    import uuid

    from crabka.ports import FileSystem

VERSION: Final = 0
MAX_DAMAGED_BYTES: Final = 4


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """Return the file's content, without a newline at the end as Kafka writes it."""
    return f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(path: str, data: bytes) -> uuid.UUID:
    """Return the topic id. Raises CorruptDataError when the file has another form."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        version = int(fields["version"])
        topic_id = uuid_from_text(fields["topic_id"].strip())
    except (ValueError, KeyError) as error:
        raise CorruptDataError(path, "malformed partition metadata") from error
    if version != VERSION:
        raise CorruptDataError(path, f"unknown partition metadata version {version}")
    return topic_id


def is_damaged_metadata(content: bytes, topic_id: uuid.UUID) -> bool:
    """Return whether a file held this topic id before a few of its bytes changed.

    Two ids that were drawn differ almost everywhere, so a file that is nearly right is damaged, not of another topic.
    """
    right = encode_partition_metadata(topic_id)
    found = content.strip(b"\n")
    if len(found) != len(right):
        return False
    return 0 < sum(one != other for one, other in zip(found, right, strict=True)) <= MAX_DAMAGED_BYTES


def read_partition_metadata(fs: FileSystem, path: str) -> uuid.UUID | None:
    """Return the topic id of a log directory.

    None if the file is missing, empty or all zeros: it is made durable with the first flush of the log, so a power
    cut right after creation may leave the name or the length without the content. Raises CorruptDataError when it
    holds something else.
    """
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return None
    return decode_partition_metadata(path, data) if data.strip(b"\0") else None
