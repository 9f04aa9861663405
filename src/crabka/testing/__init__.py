"""The public test kit: simulated disk, time, threads and network, on which unchanged node code runs."""

from __future__ import annotations

from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem, disk_failure, no_space, read_only_disk
from crabka.testing.memory_file_system import MemoryFile, MemoryFileSystem

__all__ = [
    "FaultRule",
    "FaultyFileSystem",
    "MemoryFile",
    "MemoryFileSystem",
    "disk_failure",
    "no_space",
    "read_only_disk",
]
