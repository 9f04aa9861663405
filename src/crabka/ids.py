"""Identifiers that must not be mixed up, and Kafka's text form of UUIDs.

Kafka prints a UUID as 22 characters of URL-safe base64 without padding; that form appears in
`meta.properties`, in `partition.metadata`, in directory names of the remote tier and on the command line.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
TopicId = uuid.UUID
DirectoryId = uuid.UUID

NO_BROKER = BrokerId(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)

ZERO_UUID = uuid.UUID(int=0)
# Kafka reserves small values for directory states (`DirectoryId` in Kafka).
DIRECTORY_MIGRATING = ZERO_UUID
DIRECTORY_UNASSIGNED = uuid.UUID(int=1)
DIRECTORY_LOST = uuid.UUID(int=2)


class TopicPartition(NamedTuple):
    """A topic name with a partition index, printed as in Kafka's directory names."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_to_text(value: uuid.UUID) -> str:
    """Return Kafka's 22-character text of a UUID."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> uuid.UUID:
    """Parse Kafka's 22-character text of a UUID.

    Raises ValueError when the text is not base64url of 16 bytes.
    """
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a base64url UUID") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} holds {len(raw)} bytes, a UUID has 16")
    return uuid.UUID(bytes=raw)
