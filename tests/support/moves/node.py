"""A simulated node with several log dirs whose replicas are moved over the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crabka.ports import Runtime
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from tests.support.nodes.sim_node import SimNode, batch, row

TWO_DIRS = ("/d1", "/d2")


class Interruption:
    """Does something when a place is reached for the first time."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.passed: list[str] = []
        self.action: Callable[[], object] = list

    def hit(self, name: str) -> None:
        self.passed.append(name)
        if name == self.place and self.passed.count(name) == 1:
            self.action()


class InterruptedNode(SimNode):
    """A node whose moves pass by an interruption, and whose disk may fail."""

    def __init__(self, place: str = "", *, log_dirs: tuple[str, ...] = TWO_DIRS) -> None:
        self.interruption = Interruption(place)
        self.disk = FaultyFileSystem(MemoryFileSystem())
        super().__init__(log_dirs=log_dirs, fs=self.disk)
        assert isinstance(self.disk.inner, MemoryFileSystem)
        self.memory = self.disk.inner

    def capture(self) -> None:
        """Remember the disk as a power cut finds it now."""
        assert isinstance(self.disk.inner, MemoryFileSystem)
        self.memory = self.disk.inner.clone()

    def crash(self) -> None:
        """Lose power at the moment that was captured, if one was, else now."""
        super().crash()
        self.disk.inner = self.memory

    def _new_runtime(self) -> Runtime:
        return replace(super()._new_runtime(), failpoints=self.interruption)


def alter(node: SimNode, path: str, topic: str, *partitions: int, version: int = 2) -> dict[int, ErrorCode]:
    """Ask for replicas of a topic to lie in a log dir; return the error codes by partition."""
    topics = [row("AlterReplicaLogDirTopic", name=topic, partitions=list(partitions))]
    dirs = [row("AlterReplicaLogDir", path=path, topics=topics)]
    answer = node.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    (found,) = answer.results
    assert found.topic_name == topic
    return {each.partition_index: each.error_code for each in found.partitions}


def place_of(node: SimNode, topic: str = "t", partition: int = 0) -> str:
    """Return the log dir of a replica."""
    return node.context.partitions.by_name(topic, partition).log.log_dir


def other_dir(node: SimNode, topic: str = "t", partition: int = 0, dirs: tuple[str, ...] = TWO_DIRS) -> str:
    """Return a log dir that a replica is not in."""
    return next(path for path in dirs if path != place_of(node, topic, partition))


def fill(node: SimNode, count: int, topic: str = "t", *, value: bytes = b"x" * 100) -> None:
    """Produce so many records."""
    for _ in range(count):
        assert node.produce(topic, batch(value)).error_code == 0


def log_names(node: SimNode, path: str, topic: str = "t") -> list[str]:
    """Return what lies in a log dir of a topic's logs, and of markers."""
    return [name for name in node.memory.listdir(path) if name.startswith((f"{topic}-", "move-"))]


def settle(node: SimNode, milliseconds: int = 3000) -> None:
    """Give all moves the time that they need."""
    node.advance(milliseconds)
    assert len(node.context.moves) == 0


def throttle(node: SimNode, bytes_per_second: int | None) -> None:
    """Set or remove the limit of moves."""
    configs: dict[str, Any] = {
        "replica_alter_log_dirs_io_max_bytes_per_second": None if bytes_per_second is None else str(bytes_per_second)
    }
    assert node.set_configs(4, "1", **configs) == 0
