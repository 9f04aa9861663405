"""A look into the running nodes of a cluster, as no client has it: metadata, replicas, files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from crabka.broker.partition.partition import Partition
from crabka.metadata.image import MetadataImage
from crabka.metadata.topics import PartitionImage
from crabka.ports import FileSystem
from crabka.quorum.raft.log import RaftLog
from crabka.records.header import BatchHeader, iter_headers
from crabka.vfs import read_file
from tests.support.cluster_sim.machine import ClusterMachine


class Replica(NamedTuple):
    """A partition as one node hosts it."""

    machine: ClusterMachine
    partition: Partition


class ReplicaBatch(NamedTuple):
    """A batch as it lies in a file."""

    header: BatchHeader
    data: bytes


class ActiveController(NamedTuple):
    """The leader of the metadata quorum by its own state."""

    name: str
    epoch: int
    log: RaftLog

    def holds(self, image: MetadataImage) -> bool:
        """Return whether the log has the last record of an image, or a snapshot in its place."""
        if image.offset < self.log.start_offset:
            return True
        end = self.log.end_offset_for_epoch(image.epoch)
        return end.epoch == image.epoch and end.offset > image.offset


class ClusterProbe:
    """What the nodes know; the newest metadata that any of them ever had is kept."""

    def __init__(self, machines: Sequence[ClusterMachine]) -> None:
        self._machines = machines
        self._image: MetadataImage | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that any node knows, or knew."""
        for machine in self._machines:
            image = image_of(machine)
            if image is not None and (self._image is None or image.offset > self._image.offset):
                self._image = image
        assert self._image is not None, "no node has started yet"
        return self._image

    @property
    def has_image(self) -> bool:
        """Whether any node has metadata."""
        return self._image is not None or any(image_of(machine) is not None for machine in self._machines)

    def replicas(self) -> Iterator[Replica]:
        """Yield the partitions that serving brokers host."""
        for machine in self._machines:
            if machine.node is not None and machine.spec.is_broker:
                for partition in machine.node.context.partitions:
                    yield Replica(machine, partition)

    def in_sync(self, image: MetadataImage, topic: str, index: int) -> list[Replica]:
        """Return those members of the ISR that serve in the life that the metadata knows."""
        members = image.topics.by_name[topic].partitions[index].isr
        found = []
        for machine in self._machines:
            if machine.node is None or machine.spec.node_id not in members:
                continue
            broker = image.cluster.brokers.get(machine.spec.node_id)
            partition = machine.node.context.partitions.get(topic, index)
            if broker is not None and partition is not None and broker.epoch == broker_epoch(machine):
                found.append(Replica(machine, partition))
        return found

    def leader_epochs(self, topic: str, index: int) -> list[int]:
        """Return the epochs of all who believe to lead a partition: more than one while an old leader does not know."""
        found = (machine.node.context.partitions.get(topic, index) for machine in self._serving_brokers())
        return [partition.leader_epoch for partition in found if partition is not None and partition.is_leader]

    def _serving_brokers(self) -> Iterator[Any]:
        return (each for each in self._machines if each.node is not None and each.spec.is_broker)

    def active_controllers(self) -> list[ActiveController]:
        """Return those who believe to be the active controller."""
        found = []
        for machine in self._machines:
            quorum = getattr(machine.program, "_quorum", None)
            if quorum is not None and getattr(quorum, "is_active", False):
                found.append(ActiveController(machine.name, quorum.leader_epoch, quorum._driver._log))
        return found


def image_of(machine: ClusterMachine) -> MetadataImage | None:
    """Return the metadata that a running node has applied."""
    quorum = getattr(machine.program, "_quorum", None)
    return quorum.image if quorum is not None else None


def broker_epoch(machine: ClusterMachine) -> int:
    """Return the epoch in which a serving broker is registered."""
    assert machine.node is not None
    return machine.node.context.identity.broker_epoch


def partitions_of(image: MetadataImage) -> Iterator[tuple[str, int, PartitionImage]]:
    """Yield topic, index and state of all partitions."""
    for topic in image.topics.by_name.values():
        for index, partition in topic.partitions.items():
            yield topic.name, index, partition


def stored_batches(fs: FileSystem, path: str) -> list[ReplicaBatch]:
    """Return the batches in the segments of a log, in order."""
    found = []
    for name in fs.listdir(path):
        if name.endswith(".log"):
            data = read_file(fs, f"{path}/{name}")
            for position, header in iter_headers(data):
                found.append(ReplicaBatch(header, data[position : position + header.size_in_bytes]))
    return found
