"""Waiting until the metadata place a replica in a log dir."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from crabka.broker.logdirs.assignments import DirectoryAssignments
from crabka.metadata.image import MetadataImage
from crabka.testing import VirtualTimeLoop
from tests.support.quorum.images import cluster, partition_of, with_partition, with_topic

OTHER = uuid.UUID(int=2001)


class Metadata:
    """Commits what it receives, if it pays attention."""

    def __init__(self, ignored: int = 0) -> None:
        self.image: MetadataImage = with_topic(cluster(1), "t")
        self.reported: list[Any] = []
        self._ignored = ignored
        self._listeners: list[Callable[[object, MetadataImage], None]] = []

    @property
    def partition(self) -> Any:
        return SimpleNamespace(topic="t", index=0, topic_id=self.image.topics.by_name["t"].topic_id)

    def subscribe(self, listener: Callable[[object, MetadataImage], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def send(self, by_directory: Any) -> bool:
        self.reported.append(by_directory)
        if len(self.reported) > self._ignored:
            asyncio.get_running_loop().call_later(0.05, self._commit)
        return True

    def _commit(self) -> None:
        self.image = with_partition(self.image, "t", 0, replace(partition_of(self.image), directories=(OTHER,)))
        for listener in list(self._listeners):
            listener(None, self.image)

    def assign(self, log_dir: str) -> None:
        logs: Any = SimpleNamespace(directory_id={"/other": OTHER, "/known": uuid.UUID(int=1001)}.get)
        reports: Any = self
        assignments = DirectoryAssignments(reports, logs, node_id=1, image=lambda: self.image, subscribe=self.subscribe)
        loop = VirtualTimeLoop()
        loop.run_until_complete(assignments.assign(self.partition, log_dir))
        loop.close()
        assert self._listeners == []


def test_it_is_reported_and_waited_for() -> None:
    metadata = Metadata()
    metadata.assign("/other")
    assert metadata.reported == [{OTHER: {metadata.partition.topic_id: [0]}}]
    assert partition_of(metadata.image).directories == (OTHER,)


def test_it_is_reported_again_until_it_is_answered() -> None:
    metadata = Metadata(ignored=3)
    metadata.assign("/other")
    assert len(metadata.reported) == 4


def test_what_is_so_already_is_not_reported() -> None:
    metadata = Metadata()
    metadata.assign("/known")
    metadata.assign("/without-an-id")
    assert metadata.reported == []
