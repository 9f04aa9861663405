"""Files of tables on a disk of this machine, as safe from a power cut as in an object store.

Spark, deltalake and pyiceberg leave it to the system when a file reaches the disk. A commit that got there before the
rows that it names would have lost them for good: their offsets would not be read again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from crabka.spark.lake.errors import LakeError
from crabka.vfs import OsFileSystem


@contextmanager
def reporting_disk_errors(what: str) -> Iterator[None]:
    """Raise LakeError with what could not be done and the system's own words, instead of OSError."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise LakeError(f"{what}: {reason}") from error


def sync_file(directory: str, path: str) -> None:
    """Make a file below the directory of a table durable, and every name that leads to it from the directory above."""
    fs = OsFileSystem()
    whole = os.path.join(directory, path)
    file = fs.open(whole)
    try:
        file.fsync()
    finally:
        file.close()
    _sync_names(fs, directory, whole)


def create_file(directory: str, path: str, data: bytes) -> bool:
    """Make a file unless there is one: whole and durable, or not at all. Return whether it was made."""
    fs = OsFileSystem()
    whole = os.path.join(directory, path)
    temporary = f"{whole}.{uuid4().hex}"
    fs.makedirs(os.path.dirname(whole))
    try:
        file = fs.open(temporary, create=True, exclusive=True)
        try:
            file.pwritev([data], 0)
            file.fsync()
        finally:
            file.close()
        # Unlike a rename this fails if another writer was first.
        os.link(temporary, whole)
    except FileExistsError:
        return False
    finally:
        if fs.exists(temporary):
            fs.unlink(temporary)
    _sync_names(fs, directory, whole)
    return True


def _sync_names(fs: OsFileSystem, directory: str, whole: str) -> None:
    above = os.path.dirname(whole)
    while len(above) > len(directory):
        fs.fsync_dir(above)
        above = os.path.dirname(above)
    fs.fsync_dir(directory)
    fs.fsync_dir(os.path.dirname(directory))
