"""A broker with two log dirs, and the requests that move a partition between them: the same for both brokers."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.brokers import TOPIC, running
from crabka.cli.session import with_cluster
from crabka.clients.connection import BodyBuilder
from crabka.protocol.apis import ApiKey, MessageTypes
from tests.support.node_process import NodeProcess

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica of partition 0 is, and whether it is the copy that a move is making."""

    log_dir: Path
    size: int
    is_future: bool


@contextmanager
def running_on_two_dirs(broker: str, throttle: int | None = None) -> Iterator[NodeProcess]:
    """A node with two empty log dirs on one disk."""
    with TemporaryDirectory(prefix="bench-dir-") as first, TemporaryDirectory(prefix="bench-dir-") as second:
        settings = {"log.dirs": f"{first},{second}"}
        if throttle is not None:
            settings[THROTTLE] = str(throttle)
        with running(broker, settings) as node:
            yield node


def places(node: NodeProcess) -> list[Place]:
    """The replicas of partition 0 of the topic."""

    def build(types: MessageTypes) -> Any:
        return types.message(topics=[types.new("DescribableLogDirTopic", topic=TOPIC, partitions=[0])])

    answer = _ask(node, ApiKey.DESCRIBE_LOG_DIRS, build)
    return [
        Place(Path(directory.log_dir), partition.partition_size, partition.is_future_key)
        for directory in answer.results
        for topic in directory.topics
        for partition in topic.partitions
    ]


def other_dir(node: NodeProcess) -> Path:
    """The log dir that partition 0 is not in."""
    (place,) = places(node)
    dirs = [Path(name) for name in node.settings["log.dirs"].split(",")]
    (other,) = (each for each in dirs if each != place.log_dir)
    return other


def begin_move(node: NodeProcess, target: Path) -> None:
    """Ask for partition 0 to be in a log dir. Raises RuntimeError if that is refused."""

    def build(types: MessageTypes) -> Any:
        topics = [types.new("AlterReplicaLogDirTopic", name=TOPIC, partitions=[0])]
        return types.message(dirs=[types.new("AlterReplicaLogDir", path=str(target), topics=topics)])

    answer = _ask(node, ApiKey.ALTER_REPLICA_LOG_DIRS, build)
    codes = [partition.error_code.name for topic in answer.results for partition in topic.partitions]
    if codes != ["none"]:
        raise RuntimeError(f"the move to {target} was refused: {codes}")


def wait_moved(node: NodeProcess, target: Path, timeout_s: float = 600) -> None:
    """Wait until the only copy is in the log dir."""
    deadline = time.monotonic() + timeout_s
    while [(place.log_dir, place.is_future) for place in places(node)] != [(target, False)]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the partition is not in {target} alone after {timeout_s:g} s: {places(node)}")
        time.sleep(POLL_SECONDS)


def timed_move(node: NodeProcess) -> float:
    """Move partition 0 to the other log dir; returns seconds."""
    target = other_dir(node)
    begin = time.perf_counter()
    begin_move(node, target)
    wait_moved(node, target)
    return time.perf_counter() - begin


def timed_copy(node: NodeProcess) -> float:
    """Copy the files of partition 0 to the other log dir's disk by `cp` and sync them; returns seconds."""
    (place,) = places(node)
    source = place.log_dir / f"{TOPIC}-0"
    with TemporaryDirectory(prefix="bench-copy-", dir=other_dir(node).parent) as directory:
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


def _ask(node: NodeProcess, api_key: ApiKey, build: BodyBuilder) -> Any:
    return with_cluster(node.bootstrap_servers, lambda cluster: cluster.request_any(api_key, build))
