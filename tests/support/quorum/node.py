"""A simulated node with nothing but its metadata: memory disk, virtual time, formatted directory."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast
from uuid import UUID

from crabka.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from crabka.ports import FileSystem, Network, Runtime
from crabka.quorum.formatting import FormatPlan, write_format
from crabka.quorum.log.voters import VoterEndpoint, VoterNode
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.settings import MetadataLogSettings
from crabka.testing.inline_threads import InlineThreads
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.testing.simulated_clock import EPOCH_MS, SimulatedClock
from crabka.testing.virtual_time_loop import VirtualTimeLoop

T = TypeVar("T")
DIRECTORY = "/data"
LOG_DIRECTORY = f"{DIRECTORY}/__cluster_metadata-0"
DIRECTORY_ID = UUID("bdc15fa3-4955-40bc-84da-eda375f85576")
VOTER = VoterNode(1, DIRECTORY_ID, (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),))
QUIET = MetadataLogSettings(max_idle_interval_ms=0, max_snapshot_interval_ms=0)


def formatted_disk(voters: tuple[VoterNode, ...] = (VOTER,)) -> MemoryFileSystem:
    """Return a disk with the formatted directory of node 1."""
    fs = MemoryFileSystem()
    fs.makedirs(DIRECTORY)
    fs.fsync_dir("/")
    plan = FormatPlan(
        cluster_id="cluster",
        node_id=1,
        log_dirs=[DIRECTORY],
        metadata_dir=DIRECTORY,
        directory_ids={DIRECTORY: DIRECTORY_ID},
        voters=voters,
    )
    write_format(fs, plan, now_ms=EPOCH_MS)
    return fs


def run_node(fs: FileSystem, main: Callable[[Runtime], Awaitable[T]], *, seed: int | None = None) -> T:
    """Run a coroutine on a fresh loop with the ports of a simulated node; a seed adds delays of the threads."""
    loop = VirtualTimeLoop()
    rng = random.Random(seed)
    threads = InlineThreads(loop, rng if seed is not None else None, max_delay_ms=5.0)
    runtime = Runtime(SimulatedClock(loop), rng, threads, fs, cast("Network", None))

    async def wrapped() -> T:
        return await main(runtime)

    return loop.run(wrapped())


async def open_quorum(runtime: Runtime, settings: MetadataLogSettings = QUIET) -> RaftQuorum:
    """Open the quorum of node 1, which votes alone, and wait until it takes appends."""
    quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, QuorumOptions(log=settings))
    await quorum.wait_active()
    return quorum


def new_topic(name: str, number: int) -> list[Any]:
    """Return the records of a new topic with one partition."""
    topic_id = UUID(int=1000 + number)
    return [
        TopicRecord(name=name, topic_id=topic_id),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(DIRECTORY_ID,),
        ),
    ]


def topic_config(topic: str, key: str, value: str | None) -> ConfigRecord:
    """Return the record that sets a config of a topic."""
    return ConfigRecord(resource_type=2, resource_name=topic, name=key, value=value)
