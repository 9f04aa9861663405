"""Where the replicas of a one-node cluster are, and requests to have them elsewhere: the same for every broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crabka.cli.session import with_cluster
from crabka.protocol.apis import ApiKey, MessageTypes
from tests.support.node_process import NodeError, wait_until

if TYPE_CHECKING:
    from crabka.clients.connection import BodyBuilder
    from tests.support.node_process import NodeProcess


# Each question is a connection of its own.
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """A copy of a partition: its log dir, its size, and whether it is the one that a move is making."""

    log_dir: Path
    size: int
    is_future: bool = False


def log_dirs_of(node: NodeProcess) -> list[Path]:
    """The log dirs that a node was started with."""
    return [Path(name) for name in node.settings["log.dirs"].split(",")]


def places(node: NodeProcess, topic: str, partition: int = 0) -> list[ReplicaPlace]:
    """All copies of a partition."""

    def build(types: MessageTypes) -> Any:
        return types.message(topics=[types.new("DescribableLogDirTopic", topic=topic, partitions=[partition])])

    answer = _ask(node, ApiKey.DESCRIBE_LOG_DIRS, build)
    return [
        ReplicaPlace(Path(directory.log_dir), found.partition_size, found.is_future_key)
        for directory in answer.results
        for each in directory.topics
        for found in each.partitions
    ]


def other_dir(node: NodeProcess, topic: str, partition: int = 0) -> Path:
    """The first log dir that has no copy of a partition, which must have only one."""
    (place,) = places(node, topic, partition)
    return next(each for each in log_dirs_of(node) if each != place.log_dir)


def begin_move(node: NodeProcess, target: Path, topic: str, partition: int = 0) -> None:
    """Ask for a partition to be in a log dir. Raises NodeError if that is refused."""

    def build(types: MessageTypes) -> Any:
        topics = [types.new("AlterReplicaLogDirTopic", name=topic, partitions=[partition])]
        return types.message(dirs=[types.new("AlterReplicaLogDir", path=str(target), topics=topics)])

    answer = _ask(node, ApiKey.ALTER_REPLICA_LOG_DIRS, build)
    codes = [row.error_code.name for each in answer.results for row in each.partitions]
    if codes != ["none"]:
        raise NodeError(f"the move of {topic}-{partition} to {target} was refused: {codes}")


def wait_moved(node: NodeProcess, target: Path, topic: str, partition: int = 0, *, timeout_s: float = 600) -> None:
    """Wait until the only copy of a partition is in the log dir."""

    def has_moved() -> bool:
        return [(place.log_dir, place.is_future) for place in places(node, topic, partition)] == [(target, False)]

    wait_until(has_moved, f"{topic}-{partition} is in {target} alone", timeout_s=timeout_s, poll_s=POLL_SECONDS)


def move(node: NodeProcess, topic: str, partition: int = 0) -> Path:
    """Move a partition to another log dir, and wait until it is there."""
    target = other_dir(node, topic, partition)
    begin_move(node, target, topic, partition)
    wait_moved(node, target, topic, partition)
    return target


def _ask(node: NodeProcess, api_key: ApiKey, build: BodyBuilder) -> Any:
    return with_cluster(node.bootstrap_servers, lambda cluster: cluster.request_any(api_key, build))
