"""Where the replicas of a one-node cluster are, and requests to have them elsewhere: the same for every broker."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crabka.cli.session import with_admin
from crabka.clients.errors import ClientNetworkError
from crabka.ids import TopicPartition
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from tests.support.nodes.process import NodeProcess


NODE_ID = 1
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

    described = with_admin(node.bootstrap_servers, lambda admin: admin.log_dirs.describe(NODE_ID))
    return [
        ReplicaPlace(Path(directory.path), found.size_bytes, found.is_future)
        for directory in described
        if (found := directory.replicas.get((topic, partition))) is not None
    ]


def other_dir(node: NodeProcess, topic: str, partition: int = 0) -> Path:
    """The first log dir that has no copy of a partition, which must have only one."""
    (place,) = places(node, topic, partition)
    return next(each for each in log_dirs_of(node) if each != place.log_dir)


def begin_move(node: NodeProcess, target: Path, topic: str, partition: int = 0) -> None:
    """Ask for a partition to be in a log dir. Raises OperationError if that is refused."""
    targets = {TopicPartition(topic, partition): str(target)}
    with_admin(node.bootstrap_servers, lambda admin: admin.log_dirs.move_replicas(NODE_ID, targets))


def wait_moved(
    node: NodeProcess,
    target: Path,
    topic: str,
    partition: int = 0,
    *,
    timeout_s: float = 600,
    poll_s: float = POLL_SECONDS,
) -> None:
    """Wait until the only copy of a partition is in the log dir."""

    def has_moved() -> bool:
        with suppress(ClientNetworkError):
            # A broker whose disk stalls may be fenced for a while.
            return _places() == [(target, False)]
        return False

    def _places() -> list[tuple[Path, bool]]:
        return [(place.log_dir, place.is_future) for place in places(node, topic, partition)]

    wait_until(has_moved, f"{topic}-{partition} is in {target} alone", timeout_s=timeout_s, poll_s=poll_s)


def move(node: NodeProcess, topic: str, partition: int = 0, *, poll_s: float = POLL_SECONDS) -> Path:
    """Move a partition to another log dir, and wait until it is there."""
    target = other_dir(node, topic, partition)
    begin_move(node, target, topic, partition)
    wait_moved(node, target, topic, partition, poll_s=poll_s)
    return target
