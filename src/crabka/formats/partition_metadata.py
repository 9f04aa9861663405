"""The file `partition.metadata`: which topic id a log directory belongs to (KIP-516)."""

from __future__ import annotations

import uuid
from typing import Final

from crabka.errors import CorruptDataError
from crabka.ids import uuid_from_text, uuid_to_text

VERSION: Final = 0
MAX_DAMAGED_BYTES: Final = 4


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """Return the file's content, without a newline at the end as Kafka writes it."""
    return f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes, where: str = "") -> uuid.UUID:
    """Return the topic id. Raises CorruptDataError when the file has another form."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        version = int(fields["version"])
        topic_id = uuid_from_text(fields["topic_id"].strip())
    except (ValueError, KeyError) as error:
        raise CorruptDataError(where, "it is no partition metadata") from error
    if version != VERSION:
        raise CorruptDataError(where, f"its version is {version}, known is {VERSION}")
    return topic_id


def is_damaged_metadata(content: bytes, topic_id: uuid.UUID) -> bool:
    """Return whether a file held this topic id before a few of its bytes changed.

    Two random ids differ almost everywhere, so a file that is nearly right is damaged, not of another topic.
    """
    right = encode_partition_metadata(topic_id)
    found = content.strip(b"\n")
    if len(found) != len(right):
        return False
    return 0 < sum(one != other for one, other in zip(found, right, strict=True)) <= MAX_DAMAGED_BYTES
