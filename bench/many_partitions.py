"""Very many partitions on one node: creating them, loading their metadata, starting until clients are told of all."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.loads import wait_first_acknowledged
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.storage import read_meta_properties
from crabka.runtime import real_runtime

REQUEST_SECONDS = 900.0
# Short enough that waiting adds little, long enough that asking does not keep the node from its work.
ASK_SECONDS = 0.05


def create_partitions(bootstrap: str, topic_count: int, partitions_per_topic: int) -> None:
    """Create the topics one after the other and wait until the last partition of the last one takes a write."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for number in range(topic_count):
        # One topic a request: Kafka refuses more than 10,000 records of metadata in one.
        name = f"many-{number}"
        created = admin.create_topics([NewTopic(name, partitions_per_topic, 1)], request_timeout=REQUEST_SECONDS)
        created[name].result(REQUEST_SECONDS)
    wait_all_told(bootstrap, topic_count * partitions_per_topic)
    wait_first_acknowledged(bootstrap, f"many-{topic_count - 1}", partition=partitions_per_topic - 1)


def metadata_load_seconds(metadata_dir: Path, partition_count: int) -> float:
    """How long Crabka takes from the closed metadata log of a stopped node to an image that may be served."""
    return asyncio.run(_load(metadata_dir, partition_count))


async def _load(metadata_dir: Path, partition_count: int) -> float:
    runtime = real_runtime()
    try:
        node_id = read_meta_properties(runtime.fs, str(metadata_dir)).node_id
        begin = time.perf_counter()
        quorum = await RaftQuorum.open(runtime, str(metadata_dir), node_id)
        await quorum.wait_active()
        seconds = time.perf_counter() - begin
        loaded = sum(len(topic.partitions) for topic in quorum.image.topics.by_id.values())
        await quorum.close()
    finally:
        runtime.threads.close()
    if loaded < partition_count:
        raise RuntimeError(f"the metadata holds only {loaded} of {partition_count} partitions")
    return seconds


def wait_all_told(bootstrap: str, partition_count: int) -> None:
    """Wait until Metadata shows so many partitions, each with a leader."""
    quick = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "log_level": 0}
    admin = AdminClient({"bootstrap.servers": bootstrap, **quick})
    deadline = time.perf_counter() + REQUEST_SECONDS
    while _told_count(admin) < partition_count:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"not all of {partition_count} partitions are told to clients")
        time.sleep(ASK_SECONDS)


def _told_count(admin: AdminClient) -> int:
    try:
        topics = admin.list_topics(timeout=30).topics
    except KafkaException:
        return 0
    return sum(partition.leader >= 0 for topic in topics.values() for partition in topic.partitions.values())
