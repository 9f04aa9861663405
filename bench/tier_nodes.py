"""Nodes of both brokers with a tier, and topics that are in the tier only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import running
from bench.loads import fill_partition
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.clients.fetcher.offsets import EARLIEST_LOCAL, LATEST, LATEST_TIERED
from crabka.ids import TopicPartition
from tests.support.nodes.process import NodeProcess
from tests.support.tiers.versitygw import VersityGateway

TIERED = "tiered"
VALUE_BYTES = 8_192
BATCH_BYTES = 131_072
_PLACE = TopicPartition(TIERED, 0)
TIER_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    # So that a topic leaves the disk soon after it was written.
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}
LOCAL_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


@contextmanager
def running_on_directory(broker: str) -> Iterator[NodeProcess]:
    """A node whose tier is a directory on the same disk."""
    with TemporaryDirectory(prefix="bench-tier-") as directory:
        storage = {"remote.log.storage.manager.class.name": LOCAL_STORAGE, "rsm.config.dir": directory}
        with running(broker, TIER_SETTINGS | storage) as node:
            yield node


@contextmanager
def gateway() -> Iterator[VersityGateway]:
    """An S3 server on this machine."""
    with TemporaryDirectory(prefix="bench-s3-") as directory, VersityGateway(Path(directory)) as server:
        yield server


@contextmanager
def running_on_s3(server: VersityGateway) -> Iterator[NodeProcess]:
    """Crabka with a bucket as its tier."""
    storage = {f"rsm.config.{name}": value for name, value in server.storage_settings().items()}
    with running("crabka", TIER_SETTINGS | {"remote.log.storage.manager.class.name": "s3"} | storage) as node:
        yield node


def fill_tier(node: NodeProcess, total_bytes: int, segment_bytes: int) -> int:
    """Write a topic of one partition and wait until it is in the tier only; return how many records it has."""
    configs = {
        "remote.storage.enable": "true",
        "segment.bytes": str(segment_bytes),
        "local.retention.ms": "1000",
        "retention.ms": "-1",
        "file.delete.delay.ms": "0",
    }
    _create(node, configs)
    count = total_bytes // VALUE_BYTES
    fill_partition(node.bootstrap_servers, TIERED, os.urandom(VALUE_BYTES), count, {"batch.size": BATCH_BYTES})
    _wait_remote_only(node.bootstrap_servers, count)
    return count


def _create(node: NodeProcess, configs: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic(TIERED, 1, 1, config=dict(configs))])[TIERED].result(60)


def _wait_remote_only(bootstrap: str, count: int, timeout_s: float = 600) -> None:
    deadline = time.monotonic() + timeout_s
    while (found := _offsets(bootstrap)) != (count, count - 1, count):
        if time.monotonic() > deadline:
            raise RuntimeError(f"of {count} records end, last in the tier and first on the disk are {found}")
        time.sleep(0.2)


def _offsets(bootstrap: str) -> tuple[int, ...]:
    """The end, the last offset in the tier and the first on the disk."""

    async def ask(admin: Admin) -> tuple[int, ...]:
        answers = [await admin.list_offsets({_PLACE: spec}) for spec in (LATEST, LATEST_TIERED, EARLIEST_LOCAL)]
        return tuple(answer[_PLACE].offset for answer in answers)

    return with_admin(bootstrap, ask)
