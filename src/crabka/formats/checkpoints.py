"""Kafka's checkpoint files: a version line, a count line, then one line per entry.

The offset checkpoints of a log dir (`topic partition offset`) and the leader epochs of a log (`epoch start_offset`)
share the format, version 0. `.kafka_cleanshutdown` is JSON of its own. The formats have no checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from crabka.errors import CorruptDataError
from crabka.formats.leader_epochs import epochs_rise
from crabka.ids import TopicPartition

VERSION: Final = 0


def encode_checkpoint(lines: Sequence[str]) -> bytes:
    """Return the bytes of a checkpoint file with these entry lines."""
    return "".join(f"{line}\n" for line in (str(VERSION), str(len(lines)), *lines)).encode()


def decode_checkpoint(data: bytes, fields: int, where: str = "") -> list[list[str]]:
    """Return the entries of a checkpoint file, each split into `fields` words.

    Raises CorruptDataError when version, count or a line is wrong.
    """
    try:
        lines = data.decode("ascii").splitlines()
        version, count = int(lines[0]), int(lines[1])
    except UnicodeDecodeError as error:
        raise CorruptDataError(where, "it is not ASCII text") from error
    except (ValueError, IndexError) as error:
        raise CorruptDataError(where, "it has no header of a checkpoint") from error
    if version != VERSION:
        raise CorruptDataError(where, f"its version is {version}, known is {VERSION}")
    entries = [line.split() for line in lines[2:]]
    if count != len(entries):
        raise CorruptDataError(where, f"it has {len(entries)} entries instead of {count}")
    if any(len(entry) != fields for entry in entries):
        raise CorruptDataError(where, f"it has an entry without {fields} words")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the bytes of an offset checkpoint."""
    return encode_checkpoint([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def decode_offsets(data: bytes, where: str = "") -> dict[TopicPartition, int]:
    """Return the offsets of an offset checkpoint. Raises CorruptDataError."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in decode_checkpoint(data, 3, where)
        }
    except ValueError as error:
        raise CorruptDataError(where, "an entry is not a number") from error


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes of a leader epoch checkpoint."""
    return encode_checkpoint([f"{epoch} {start}" for epoch, start in entries])


def decode_epochs(data: bytes, where: str = "") -> list[tuple[int, int]]:
    """Return the (epoch, start offset) entries of a leader epoch checkpoint, both rising. Raises CorruptDataError."""
    entries = decode_checkpoint(data, 2, where)
    # `int` also takes signs and underscores, which Kafka never writes.
    if not all(word.isdecimal() for entry in entries for word in entry):
        raise CorruptDataError(where, "an entry is not a number")
    epochs = [(int(epoch), int(start)) for epoch, start in entries]
    if not epochs_rise(epochs):
        raise CorruptDataError(where, "its epochs overlap")
    return epochs


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Return the content of `.kafka_cleanshutdown`."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """Return the broker epoch in `.kafka_cleanshutdown`, -1 if it holds none."""
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, TypeError, KeyError):
        # Brokers before 3.8 left the file empty; its presence is what counts.
        return -1
