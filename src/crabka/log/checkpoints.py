"""Kafka's checkpoint files: a version line, a count line, then one line per entry.

Four offset checkpoints per log dir (`topic partition offset`) and one leader epoch checkpoint per log
(`epoch start_offset`) share the format, version 0. `.kafka_cleanshutdown` is JSON of its own.

The format has no checksum. Each offset checkpoint is guarded by a copy (`vfs.guarded_file`); leader epochs are compared
with the batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError
from crabka.ids import TopicPartition
from crabka.vfs import read_file, read_guarded, settle_guarded, write_atomic, write_guarded

if TYPE_CHECKING:
    from crabka.ports import FileSystem

CHECKPOINT_VERSION: Final = 0


def encode_checkpoint(lines: Sequence[str]) -> bytes:
    """Return the bytes of a checkpoint file with these entry lines."""
    return "".join(f"{line}\n" for line in (str(CHECKPOINT_VERSION), str(len(lines)), *lines)).encode()


def decode_checkpoint(path: str, data: bytes, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint file, each split into `fields` words.

    Raises CorruptDataError when version, count or a line is wrong. `path` only names the file in the error.
    """
    try:
        lines = data.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (UnicodeDecodeError, ValueError, IndexError) as error:
        raise CorruptDataError(path, "malformed checkpoint header") from error
    entries = [line.split() for line in lines[2:]]
    if version != CHECKPOINT_VERSION:
        raise CorruptDataError(path, f"unknown checkpoint version {version}")
    if count != len(entries) or any(len(entry) != fields for entry in entries):
        raise CorruptDataError(path, f"expected {count} entries of {fields} words")
    return entries


def read_offset_checkpoint(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint file; empty if there is no file. Raises CorruptDataError."""
    try:
        return _decode_offsets(path, read_guarded(fs, path).data)
    except FileNotFoundError:
        return {}


def heal_offset_checkpoint(fs: FileSystem, path: str) -> tuple[dict[TopicPartition, int], str]:
    """Read a checkpoint file that nobody writes meanwhile, and write anew what rotted of it or of its copy.

    Return the offsets and what was wrong, empty if nothing. Raises CorruptDataError.
    """
    try:
        content = read_guarded(fs, path)
    except FileNotFoundError:
        return {}, ""
    offsets = _decode_offsets(path, content.data)
    return offsets, settle_guarded(fs, path, content)


def _decode_offsets(path: str, data: bytes) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in decode_checkpoint(path, data, 3)
        }
    except ValueError as error:
        raise CorruptDataError(path, "an entry is not a number") from error


def write_offset_checkpoint(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint file durably."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_guarded(fs, path, encode_checkpoint(lines))


def decode_epochs(path: str, data: bytes) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) entries of a leader epoch checkpoint. Raises CorruptDataError."""
    try:
        return [(int(epoch), int(start)) for epoch, start in decode_checkpoint(path, data, 2)]
    except ValueError as error:
        raise CorruptDataError(path, "an entry is not a number") from error


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes of a leader epoch checkpoint."""
    return encode_checkpoint([f"{epoch} {start}" for epoch, start in entries])


def read_clean_shutdown(fs: FileSystem, path: str) -> int | None:
    """Return the broker epoch in a clean shutdown file, -1 if it holds none, None if there is no file."""
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return None
    try:
        content = json.loads(data)
        return int(content["brokerEpoch"])
    except (ValueError, TypeError, KeyError):
        # Brokers before 3.8 left the file empty; its presence is what counts.
        return -1


def write_clean_shutdown(fs: FileSystem, path: str, broker_epoch: int) -> None:
    """Leave the mark of a clean stop, durably."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomic(fs, path, text.encode())
