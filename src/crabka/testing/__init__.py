"""The public test kit: simulated disk, time, threads and network, on which unchanged node code runs."""

from __future__ import annotations

from crabka.testing.memory_file_system import MemoryFile, MemoryFileSystem

__all__ = ["MemoryFile", "MemoryFileSystem"]
