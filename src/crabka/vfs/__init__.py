"""The file-system port on the operating system, and the few compositions of it that everybody needs."""

from __future__ import annotations

from crabka.vfs.atomic import read_file, write_atomic, write_synced
from crabka.vfs.copying import copy_by_reading
from crabka.vfs.guarded_file import GuardedContent, read_guarded, settle_guarded, write_guarded
from crabka.vfs.os_file_system import OsFile, OsFileSystem
from crabka.vfs.passing_file import passing_file

__all__ = [
    "GuardedContent",
    "OsFile",
    "OsFileSystem",
    "copy_by_reading",
    "passing_file",
    "read_file",
    "read_guarded",
    "settle_guarded",
    "write_atomic",
    "write_guarded",
    "write_synced",
]
