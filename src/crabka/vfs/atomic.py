"""Whole-file reads, writes and atomic replacement, for checkpoints and other small files, on any FileSystem.

Must not know what the files hold.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.ports import Buffer, FileSystem

# Kafka's suffix for the same purpose; the log loader sweeps leftovers of either broker.
TEMPORARY_SUFFIX = ".tmp"


def read_file(fs: FileSystem, path: str) -> bytes:
    """Return the whole content of a file. Raises FileNotFoundError."""
    file = fs.open(path, read_only=True)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def write_synced(fs: FileSystem, path: str, data: Buffer) -> int:
    """Create or overwrite a whole file; its content is durable on return, its name is not. Return its size.

    A crash or an OSError leaves any part of it: only for files that do not count before something else names them.
    """
    file = fs.open(path, create=True)
    try:
        file.truncate(0)
        if len(data):
            file.pwritev([data], 0)
        file.fsync()
    finally:
        file.close()
    return len(data)


def write_atomic(fs: FileSystem, path: str, data: Buffer) -> None:
    """Replace a file so that a crash leaves the old content or the new, never a mixture.

    On return the new content is durable. On OSError the old content stands; a leftover temporary file is
    overwritten by the next call. Only one writer of a path at a time: they share the temporary name.
    """
    temporary = path + TEMPORARY_SUFFIX
    # Content before name: a rename that overtakes its content would leave an empty file after a crash.
    write_synced(fs, temporary, data)
    fs.rename(temporary, path)
    fs.fsync_dir(posixpath.dirname(path) or ".")
