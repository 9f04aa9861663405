"""A node with two log dirs under the loads that moves have to stand, and what must be true of it afterwards."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster_process.copier import CopierProcess
from tests.support.cluster_process.load import SequencedLoad
from tests.support.cluster_process.reading import read_committed
from tests.support.faults.tier_kills import MortalNode
from tests.support.moves.log_dirs import log_dirs_of
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.support.nodes.process import NodeProcess

ORIGINAL: Final = "original"
COPY: Final = "copy"
# Segments of a few records: the copy has many files, and the log rolls while it is moved.
SMALL_SEGMENTS: Final = {"internal.segment.bytes": "100000", "file.delete.delay.ms": "1000"}


def two_dirs(directory: Path) -> dict[str, str]:
    """Settings of a node with two log dirs."""
    dirs = [directory / name for name in ("first", "second")]
    for each in dirs:
        each.mkdir(parents=True, exist_ok=True)
    return {"log.dirs": ",".join(map(str, dirs))}


def mortal_node(directory: Path, step: str = "", settings: Mapping[str, str] | None = None) -> MortalNode:
    """A node with two log dirs that dies at a step; not started."""
    node = MortalNode(directory / "node", two_dirs(directory) | dict(settings or {}))
    node.step = step
    return node


def create_topics(node: NodeProcess) -> None:
    """Create the topic that is written to and the one that it is copied to."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    topics = [NewTopic(name, 1, 1, config=dict(SMALL_SEGMENTS)) for name in (ORIGINAL, COPY)]
    for made in admin.create_topics(topics).values():
        made.result(120)


def fill(node: NodeProcess, count: int) -> SequencedLoad:
    """Write until so many records are acknowledged; returns the load, stopped."""
    load = SequencedLoad(node.bootstrap_servers, ORIGINAL, 1, rate=1000, prefix="first-")
    load.start()
    wait_more(load, count)
    load.stop()
    return load


def wait_more(load: SequencedLoad, count: int) -> None:
    """Wait until so many more records are acknowledged."""
    wanted = load.acknowledged_count + count
    wait_until(lambda: load.acknowledged_count >= wanted, f"{wanted} records are acknowledged")


@contextlib.contextmanager
def copying(node: NodeProcess, directory: Path) -> Iterator[CopierProcess]:
    """A process that copies the topic with transactions while the block runs."""
    copier = CopierProcess(directory, node.bootstrap_servers, ORIGINAL, COPY, [0])
    try:
        yield copier
    finally:
        copier.kill()


def check_copy(node: NodeProcess) -> None:
    """The copy has the records of the original, once and in order."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    original, copy = (
        [value for _, value in read_committed(admin, node.bootstrap_servers, topic, 1)[0]] for topic in (ORIGINAL, COPY)
    )
    assert copy == original


def check_loads(node: NodeProcess, loads: Iterable[SequencedLoad]) -> None:
    """Everything that was acknowledged is there once, in order, at the offsets that were reported."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    stored = read_committed(admin, node.bootstrap_servers, ORIGINAL, 1)
    for load in loads:
        load.check(stored)


def check_directories(node: NodeProcess, topic: str) -> None:
    """The disks have one directory of a partition, and nothing that a move leaves behind for good."""
    wait_until(lambda: _directories(node, topic) == [f"{topic}-0"], f"{topic}-0 is there once")
    files = [path for each in log_dirs_of(node) for path in each.iterdir() if path.is_file()]
    assert not [path.name for path in files if f"{topic}-0" in path.name]


def _directories(node: NodeProcess, topic: str) -> list[str]:
    return [path.name for each in log_dirs_of(node) for path in each.iterdir() if path.name.startswith(f"{topic}-0")]
