"""A broker with two log dirs on one disk, and how long it takes to move or to copy a partition between them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.brokers import TOPIC, running
from tests.support.moves.log_dirs import move, other_dir, places
from tests.support.nodes.process import NodeProcess

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


@contextmanager
def running_on_two_dirs(broker: str) -> Iterator[NodeProcess]:
    """A node with two empty log dirs on one disk."""
    with (
        TemporaryDirectory(prefix="bench-dir-") as first,
        TemporaryDirectory(prefix="bench-dir-") as second,
        running(broker, {"log.dirs": f"{first},{second}"}) as node,
    ):
        yield node


def throttle_moves(node: NodeProcess, bytes_per_second: int) -> None:
    """Limit the moves of a node; Kafka takes that only while it runs."""
    entry = ConfigEntry(THROTTLE, str(bytes_per_second), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(60)


def timed_move(node: NodeProcess) -> float:
    """Move partition 0 to the other log dir; returns seconds."""
    begin = time.perf_counter()
    move(node, TOPIC)
    return time.perf_counter() - begin


def timed_copy(node: NodeProcess) -> float:
    """Copy the files of partition 0 to the other log dir's disk by `cp` and sync them; returns seconds."""
    (place,) = places(node, TOPIC)
    source = place.log_dir / f"{TOPIC}-0"
    with TemporaryDirectory(prefix="bench-copy-", dir=other_dir(node, TOPIC).parent) as directory:
        begin = time.perf_counter()
        subprocess.run(["cp", "-r", str(source), directory], check=True)
        for path in (*Path(directory, source.name).iterdir(), Path(directory, source.name)):
            _sync(path)
        return time.perf_counter() - begin


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
