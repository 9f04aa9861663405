"""The ports on the real machine: clock, thread pool, network, and the start of an event loop."""

from __future__ import annotations

from crabka.runtime.allocator import return_large_memory
from crabka.runtime.clock import SystemClock
from crabka.runtime.collector import PeriodicCollector, collect_less_often
from crabka.runtime.event_loop import new_event_loop, run
from crabka.runtime.limits import raise_open_file_limit
from crabka.runtime.network import AsyncioNetwork
from crabka.runtime.real import real_runtime
from crabka.runtime.thread_pool import PoolSaturatedError, ThreadPool
from crabka.runtime.thread_share import ThreadShare, run_all

__all__ = [
    "AsyncioNetwork",
    "PeriodicCollector",
    "PoolSaturatedError",
    "SystemClock",
    "ThreadPool",
    "ThreadShare",
    "collect_less_often",
    "new_event_loop",
    "raise_open_file_limit",
    "real_runtime",
    "return_large_memory",
    "run",
    "run_all",
]
