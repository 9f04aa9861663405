"""The public test kit: simulated disk, remote tier, time, threads and network, on which unchanged node code runs."""

from __future__ import annotations

from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem, disk_failure, no_space, read_only_disk
from crabka.testing.faulty_storage import FaultyStorageManager, StorageFault
from crabka.testing.inline_threads import InlineThreads
from crabka.testing.memory_file_system import MemoryFile, MemoryFileSystem
from crabka.testing.memory_storage import InmemoryRemoteStorage
from crabka.testing.simulated_clock import SimulatedClock
from crabka.testing.simulated_network import SimulatedHost, SimulatedNetwork
from crabka.testing.simulated_runtime import simulated_runtime
from crabka.testing.simulated_transport import SimulatedTransport
from crabka.testing.virtual_time_loop import SimulationDeadlockError, VirtualTimeLoop

__all__ = [
    "FaultRule",
    "FaultyFileSystem",
    "FaultyStorageManager",
    "InlineThreads",
    "InmemoryRemoteStorage",
    "MemoryFile",
    "MemoryFileSystem",
    "SimulatedClock",
    "SimulatedHost",
    "SimulatedNetwork",
    "SimulatedTransport",
    "SimulationDeadlockError",
    "StorageFault",
    "VirtualTimeLoop",
    "disk_failure",
    "no_space",
    "read_only_disk",
    "simulated_runtime",
]
