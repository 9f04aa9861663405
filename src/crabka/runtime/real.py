"""The ports of a node on the real machine, put together."""

from __future__ import annotations

import random
from typing import Final

from crabka.ports import Runtime
from crabka.runtime.clock import SystemClock
from crabka.runtime.failpoints import failpoints_from_environment
from crabka.runtime.limits import open_file_limit
from crabka.runtime.network import AsyncioNetwork
from crabka.runtime.thread_pool import DEFAULT_WORKER_COUNT, ThreadPool
from crabka.runtime.thread_share import ThreadShare
from crabka.vfs import OsFileSystem
from crabka.vfs.syncing import sync_together

# Ranges of files that are read for slow peers at a time; each connection waits for one of its own.
READS_AT_ONCE: Final = 64


def real_runtime(seed: int | None = None, *, max_workers: int = DEFAULT_WORKER_COUNT) -> Runtime:
    """Return the real ports. `seed` makes the node's draws repeatable; without it they come from the system's entropy.

    Needs no running loop. The caller closes `threads` when the node has stopped.
    """
    threads = ThreadPool(max_workers)
    return Runtime(
        clock=SystemClock(),
        rng=random.Random(seed),
        threads=threads,
        fs=OsFileSystem(),
        network=AsyncioNetwork(ThreadShare(threads, READS_AT_ONCE)),
        make_pool=lambda size, name: ThreadPool(size, name=name),
        failpoints=failpoints_from_environment(),
        open_file_limit=open_file_limit(),
        sync_together=sync_together,
    )
