"""Very many partitions on one node: creating them, and waiting until a node that starts tells clients of all."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.loads import wait_first_acknowledged

REQUEST_SECONDS = 300.0
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
