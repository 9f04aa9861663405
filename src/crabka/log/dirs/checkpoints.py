"""Reading and writing the checkpoints of a log dir. The formats are in `formats.checkpoints`.

Offset checkpoints have no checksum, so each is guarded by a copy (`vfs.guarded_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crabka.formats.checkpoints import decode_clean_shutdown, decode_offsets, encode_clean_shutdown, encode_offsets
from crabka.ids import TopicPartition
from crabka.vfs import read_file, read_guarded, settle_guarded, write_atomic, write_guarded

if TYPE_CHECKING:
    from crabka.ports import FileSystem


def read_offset_checkpoint(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint file; empty if there is no file. Raises CorruptDataError."""
    try:
        return decode_offsets(read_guarded(fs, path).data, path)
    except FileNotFoundError:
        return {}


def heal_offset_checkpoint(fs: FileSystem, path: str) -> tuple[dict[TopicPartition, int], str]:
    """Read a checkpoint file that no one else writes now, and rewrite it or its copy if one of them rotted.

    Return the offsets and what was wrong, empty if nothing. Raises CorruptDataError.
    """
    try:
        content = read_guarded(fs, path)
    except FileNotFoundError:
        return {}, ""
    offsets = decode_offsets(content.data, path)
    return offsets, settle_guarded(fs, path, content)


def write_offset_checkpoint(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint file durably."""
    write_guarded(fs, path, encode_offsets(offsets))


def read_clean_shutdown(fs: FileSystem, path: str) -> int | None:
    """Return the broker epoch in a clean shutdown file, -1 if it holds none, None if there is no file."""
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return None
    return decode_clean_shutdown(data)


def write_clean_shutdown(fs: FileSystem, path: str, broker_epoch: int) -> None:
    """Leave the mark of a clean stop, durably."""
    write_atomic(fs, path, encode_clean_shutdown(broker_epoch))
