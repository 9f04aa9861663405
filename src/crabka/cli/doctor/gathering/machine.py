"""What can be seen on this machine of nodes that run here: the speed of their disks, their processes.

Reads /proc; on other systems nothing is found there. The only thing written is an unnamed temporary file.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

from crabka.errors import CrabkaError
from crabka.formats.file_names import LOCK_FILE
from crabka.log.dirs.meta_properties import read_meta_properties
from crabka.vfs import OsFileSystem

_SYNCS: Final = 8
_SYNC_BYTES: Final = 4096
_LOCKS: Final = Path("/proc/locks")
_PROCESSES: Final = Path("/proc")
_LOCK_FIELDS: Final = 8


def is_dir_of(path: str, cluster_id: str, node_id: int) -> bool:
    """Return whether a directory of this machine is that log dir of that node."""
    try:
        found = read_meta_properties(OsFileSystem(), path)
    except (OSError, CrabkaError):
        return False
    return found is not None and (found.cluster_id, found.node_id) == (cluster_id, node_id)


def measure_syncs(path: str) -> tuple[float, ...]:
    """Return how many milliseconds small writes took to become durable in a directory; blocks. Raises OSError."""
    found = []
    with tempfile.TemporaryFile(dir=path) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(bytes(_SYNC_BYTES))
            file.flush()
            os.fsync(file.fileno())
            found.append((time.perf_counter() - began) * 1000)
    return tuple(found)


def lock_holder(path: str) -> int | None:
    """Return the process that has a log dir locked: 0 if it is not known which, None if none has."""
    lock = Path(path) / LOCK_FILE
    try:
        found = lock.stat()
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        # `1: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF`; waiting ones have an arrow.
        fields = line.split()
        if len(fields) >= _LOCK_FIELDS and fields[3] == "WRITE" and fields[5] == place:
            return max(0, int(fields[4]))
    return None


def open_files(pid: int) -> tuple[int, int] | None:
    """Return how many files a process has open, -1 if that may not be seen, and its limit; None if it is not known."""
    process = _PROCESSES / str(pid)
    try:
        limits = (process / "limits").read_text().splitlines()
    except OSError:
        return None
    line = next((each for each in limits if each.startswith("Max open files")), "")
    fields = line.split()
    if not fields or not fields[3].isdecimal():
        return None
    try:
        count = len(os.listdir(process / "fd"))
    except OSError:
        count = -1
    return count, int(fields[3])
