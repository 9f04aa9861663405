"""`python -m bench.tier_metadata <step> <bootstrap> <directory> <segments>`: a manager of many segments.

The events of finished copies are published to the metadata topic of a running node, one to a batch, as brokers do.
Then one manager reads all of them, and another begins with the snapshots that the first has left.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from bench.brokers import PAGE_BYTES
from bench.loads import QUEUE, Deliveries
from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.remote_topic.boot import start_topic_based_manager
from crabka.remote_topic.event_reader import MetadataEvent
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLogConfig
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings
from crabka.runtime import collect_less_often, real_runtime, run

PARTITIONS = [TopicIdPartition(uuid.UUID(int=0xBE7C << 64 | 1), "orders", number) for number in range(20)]
SEGMENT_OFFSETS = 1_000
ONE_NODE = RemoteTopicSettings(replication_factor=1, min_isr=1)
LOOKUP_ROUNDS = 11
LOOKUPS = 10_000
NOW_MS = 1_700_000_000_000


def copies(segment_count: int) -> Iterator[MetadataEvent]:
    """Yield the two events of each copy, as leaders that copy in parallel would."""
    rng = random.Random(405)
    for number in range(segment_count):
        partition = PARTITIONS[number % len(PARTITIONS)]
        first = number // len(PARTITIONS) * SEGMENT_OFFSETS
        segment_id = RemoteLogSegmentId(partition, uuid.UUID(int=rng.getrandbits(128)))
        yield RemoteLogSegmentMetadata(
            segment_id=segment_id,
            start_offset=first,
            end_offset=first + SEGMENT_OFFSETS - 1,
            max_timestamp_ms=NOW_MS + number,
            broker_id=1,
            event_timestamp_ms=NOW_MS + number,
            segment_size_bytes=1 << 30,
            leader_epochs=((0, first),),
            txn_index_empty=True,
        )
        yield RemoteLogSegmentMetadataUpdate(
            segment_id=segment_id,
            event_timestamp_ms=NOW_MS + number,
            state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            broker_id=1,
        )


def publish(bootstrap: str, segment_count: int) -> None:
    """Write the events of so many segments to the metadata topic, each in a batch of its own."""
    alone = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1}
    producer = Producer({"bootstrap.servers": bootstrap, **alone, **QUEUE})
    delivered = Deliveries()
    for event in copies(segment_count):
        number = metadata_partition_for(event.topic_id_partition, ONE_NODE.num_partitions)
        producer.produce(METADATA_TOPIC, encode_event(event), partition=number, on_delivery=delivered)
        producer.poll(0)
    producer.flush(600)
    delivered.check(2 * segment_count)


class Taken(NamedTuple):
    """Seconds from the start of a manager on, from when it has found the topic, and of the processor since then."""

    since_start: float
    since_found: float
    cpu: float


@asynccontextmanager
async def managing(
    config: KafkaMetadataEventLogConfig, directory: Path
) -> AsyncIterator[tuple[TopicBasedRemoteLogMetadataManager, Taken]]:
    """A manager that knows everything, and what it took to get there."""
    runtime = real_runtime()
    begin = time.perf_counter()
    manager = await start_topic_based_manager(runtime, config, str(directory))
    found, cpu = time.perf_counter(), time.process_time()
    manager.on_partition_leadership_changes(PARTITIONS, [])
    while not all(manager.is_ready(partition) for partition in PARTITIONS):  # noqa: ASYNC110 - tells nobody
        await asyncio.sleep(0.005)
    ready = time.perf_counter()
    try:
        yield manager, Taken(ready - begin, ready - found, time.process_time() - cpu)
    finally:
        await manager.stop()
        runtime.threads.close()


def lookup_seconds(manager: TopicBasedRemoteLogMetadataManager, segment_count: int) -> float:
    """The processor's time to find the segment of one offset, at random places: the median of some rounds."""
    rng = random.Random(1)
    highest = segment_count // len(PARTITIONS) * SEGMENT_OFFSETS
    wanted = [(rng.choice(PARTITIONS), rng.randrange(highest)) for _ in range(LOOKUPS)]
    return statistics.median(_look_up_all(manager, wanted) for _ in range(LOOKUP_ROUNDS)) / LOOKUPS


def _look_up_all(manager: TopicBasedRemoteLogMetadataManager, wanted: Sequence[tuple[TopicIdPartition, int]]) -> float:
    begin = time.thread_time()
    for partition, offset in wanted:
        if manager.remote_log_segment_metadata(partition, 0, offset) is None:
            raise RuntimeError(f"offset {offset} of {partition} was not found")
    return time.thread_time() - begin


def listing_seconds(manager: TopicBasedRemoteLogMetadataManager, segment_count: int) -> float:
    """The time to list all segments."""
    begin = time.perf_counter()
    listed = sum(1 for partition in PARTITIONS for _ in manager.list_remote_log_segments(partition))
    seconds = time.perf_counter() - begin
    if listed != segment_count:
        raise RuntimeError(f"{listed} of {segment_count} segments were listed")
    return seconds


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


async def replayed(config: KafkaMetadataEventLogConfig, directory: Path, segment_count: int) -> dict[str, float]:
    """Read all events of the topic, then look around in what is known."""
    gc.collect()
    before = resident_bytes()
    async with managing(config, directory) as (manager, taken):
        return {
            "replay": 2 * segment_count / taken.since_found,
            "replay_cpu": taken.cpu / (2 * segment_count) * 1e6,
            "segment_memory": (resident_bytes() - before) / segment_count,
            "lookup": lookup_seconds(manager, segment_count) * 1e6,
            "listing": listing_seconds(manager, segment_count),
        }


async def restarted(config: KafkaMetadataEventLogConfig, directory: Path, segment_count: int) -> dict[str, float]:
    """Begin with the snapshots of a former manager."""
    async with managing(config, directory) as (manager, taken):
        listing_seconds(manager, segment_count)
        return {"restart": taken.since_start}


def main(step: str, bootstrap: str, directory: str, segments: str) -> None:
    """Take one step and print what it found as JSON."""
    collect_less_often()  # as nodes do
    config = KafkaMetadataEventLogConfig(bootstrap=bootstrap, node_id=1, topic=ONE_NODE)
    found: dict[str, float] = {}
    if step == "publish":
        publish(bootstrap, int(segments))
    else:
        measure = {"replay": replayed, "restart": restarted}[step]
        found = run(measure(config, Path(directory), int(segments)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
