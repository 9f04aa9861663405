"""A real node with a remote tier, on a simulated machine: its tier is a directory on the same disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crabka.broker.tiering.manager import TieringManager
from crabka.protocol.apis import ApiKey
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from tests.support.nodes.sim_node import SimNode, batch

TIER_DIR = "/tier"
TIER_SETTINGS: Mapping[str, str] = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "local",
    "rsm.config.dir": TIER_DIR,
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "crabka.remote.leftover.grace.ms": "10000",
}
# One batch fills a segment.
VALUE_BYTES = 1000
TIERED_TOPIC: dict[str, Any] = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": "1100",
    "file_delete_delay_ms": "0",
}


def tiered_node(settings: Mapping[str, str] | None = None, *, log_dirs: Sequence[str] = ("/d1",)) -> SimNode:
    """Return a node with a tier, not started yet."""
    return SimNode({**TIER_SETTINGS, **(settings or {})}, log_dirs=log_dirs)


def delete_topic(node: SimNode, topic: str) -> None:
    """Delete a topic."""
    node.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout=1000)


def manager_of(node: SimNode) -> TieringManager:
    """Return what the node's broker holds of the tier."""
    tiering = node.context.tiering
    assert tiering is not None
    return tiering.manager


def fill(node: SimNode, topic: str, count: int, *, first: int = 0) -> list[bytes]:
    """Produce so many segments of one record; return their values."""
    values = [b"%04d" % (first + number) + bytes(VALUE_BYTES) for number in range(count)]
    for value in values:
        assert node.produce(topic, batch(value, timestamp=node.clock.now_ms())).error_code == 0
    return values


def remote_segments(node: SimNode, topic: str, partition: int = 0) -> list[RemoteLogSegmentMetadata]:
    """Return what the metadata of the tier says of a partition."""
    topic_id = node.context.image.topics.by_name[topic].topic_id
    name = TopicIdPartition(topic_id, topic, partition)
    return list(manager_of(node).tools.metadata.list_remote_log_segments(name))


def tier_files(node: SimNode) -> list[str]:
    """Return the files in the tier."""
    root = f"{TIER_DIR}/kafka-tiered-storage"
    return [f"{name}/{file}" for name in node.memory.listdir(root) for file in node.memory.listdir(f"{root}/{name}")]
