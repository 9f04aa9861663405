"""A log manager with two dirs, alone on a disk in memory."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.dirs.log_manager import LogManager
from crabka.log.partition.partition_log import PartitionLog
from crabka.ports import FileSystem, Runtime
from crabka.testing import InlineThreads, SimulatedClock, VirtualTimeLoop
from tests.support.storage.small import append, make_batch

T = TypeVar("T")
DIRS = ("/d1", "/d2")
TOPIC_ID = uuid.UUID(int=77)
CONFIG = TopicConfig(internal_segment_bytes=300, file_delete_delay_ms=1000)


def partition(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


def simulate(
    fs: FileSystem, scenario: Callable[[LogManager], Coroutine[Any, Any, T]], *, open_file_limit: int | None = None
) -> T:
    """Run a scenario with a manager of two dirs on the given disk."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(scenario(manager_on(loop, fs, open_file_limit)))
    finally:
        loop.close()


def manager_on(loop: VirtualTimeLoop, fs: FileSystem, open_file_limit: int | None = None) -> LogManager:
    # No log asks for the network.
    runtime = Runtime(
        SimulatedClock(loop),
        random.Random(3),
        InlineThreads(loop),
        fs,
        network=None,  # type: ignore[arg-type]
        open_file_limit=open_file_limit,
    )
    return LogManager(runtime, DIRS)


async def filled(manager: LogManager, count: int = 4) -> None:
    await manager.load()
    for index in range(count):
        log = manager.create(partition(index), TOPIC_ID, CONFIG)
        for _ in range(10):
            append(log, make_batch(2, value_bytes=40))


TIERED = replace(CONFIG, remote_storage_enable=True, local_retention_bytes=0, retention_ms=-1)


async def tiered_log(manager: LogManager) -> PartitionLog:
    """Return a tiered log of twenty records in small segments."""
    await manager.load()
    log = manager.create(partition(0), TOPIC_ID, TIERED)
    for _ in range(10):
        append(log, make_batch(2, value_bytes=40))
    return log
