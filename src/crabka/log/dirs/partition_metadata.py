"""Reading `partition.metadata` of a log directory. The format is in `formats.partition_metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.formats.partition_metadata import decode_partition_metadata
from crabka.vfs import read_file

if TYPE_CHECKING:
    import uuid

    from crabka.ports import FileSystem


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
    return decode_partition_metadata(data, path) if data.strip(b"\0") else None
