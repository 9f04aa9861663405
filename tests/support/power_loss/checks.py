"""The invariants of a node that has just come up, checked against what clients were promised.

Clients are kept away while the check runs, so what it finds is what recovery made of the disk.
"""

from __future__ import annotations

import uuid

from crabka.broker.partition.partition import Partition
from crabka.errors import CorruptDataError
from crabka.formats.file_names import RECOVERY_POINT_CHECKPOINT
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.metadata.configs import ConfigResourceType
from crabka.node.node import Node
from crabka.ports import FileSystem
from tests.support.power_loss.machine import LOG_DIR, Machine
from tests.support.power_loss.model import NEVER_ROLLED, SYNCED, Model, PartitionModel, TopicState
from tests.support.power_loss.stored_log import StoredLog
from tests.support.power_loss.trace import Trace


class NodeCheck:
    """One look at a node that was started again."""

    def __init__(self, machine: Machine, model: Model, *, lossy: bool) -> None:
        assert machine.node is not None
        self._node: Node = machine.node
        self._disk: FileSystem = machine.disk
        self._trace: Trace = machine.trace
        self._model = model
        # Power was lost since the last look.
        self._lossy = lossy

    def run(self) -> None:
        """Check everything; the model takes over what was open. Raises BrokenInvariantError."""
        self._check_topics()
        self._check_no_strangers()
        for name in self._model.topics:
            state = actual_state(self._node, name)
            if state is not None and state.topic_id is not None:
                for index in range(state.partitions):
                    self._check_partition(TopicPartition(name, index), state, state.topic_id)
        self._model.synced_ends = {}

    # -- metadata --------------------------------------------------------------------------------------------------

    def _check_topics(self) -> None:
        for name, possible in self._model.topics.items():
            actual = actual_state(self._node, name)
            fits = any(state.fits(actual) if state is not None else actual is None for state in possible)
            self._require(fits, "metadata survives", f"topic {name}: {actual} is none of {possible}")
            if actual is not None:
                known = {state.topic_id for state in possible if state is not None}
                self._require(
                    actual.topic_id not in self._model.deleted_ids or actual.topic_id in known,
                    "deleted topics stay deleted",
                    f"topic {name} has the id of a deleted one, {actual.topic_id}",
                )

    def _check_no_strangers(self) -> None:
        topics = self._node.context.quorum.image.topics.by_name
        for log in self._node.context.logs:
            topic = topics.get(log.topic)
            self._require(
                topic is not None and log.partition in topic.partitions and log.topic_id in (None, topic.topic_id),
                "deleted topics stay deleted",
                f"a log of {log.topic_partition} with id {log.topic_id} is open; the metadata has {topic}",
            )

    # -- records ---------------------------------------------------------------------------------------------------

    def _check_partition(self, where: TopicPartition, state: TopicState, topic_id: uuid.UUID) -> None:
        partition = self._node.context.partitions.get(*where)
        self._require(partition is not None, "metadata survives", f"{where} is not hosted")
        assert partition is not None
        model = self._model.partitions[topic_id, where.partition]
        stored = StoredLog(self._disk, partition.log.path)
        self._require(not stored.flaws, "files decode", f"{where}: {'; '.join(stored.flaws)}")
        self._check_offsets(where, partition, model, stored)
        if self._lossy:
            self._check_end(where, state, model, partition.log.log_end_offset)
            model.forget_from(partition.log.log_end_offset)
        self._check_content(where, topic_id, model, stored, partition.log.log_start_offset)
        self._check_producers(where, partition, stored)

    def _check_offsets(
        self, where: TopicPartition, partition: Partition, model: PartitionModel, stored: StoredLog
    ) -> None:
        log = partition.log
        start, stable, high, end = (
            log.log_start_offset,
            log.last_stable_offset,
            log.high_watermark,
            log.log_end_offset,
        )
        self._require(start <= stable <= high <= end, "offsets agree", f"{where}: {start}, {stable}, {high}, {end}")
        self._require(
            stored.base_offset <= start and stored.end_offset == end,
            "offsets agree",
            f"{where} claims {start}..{end}, its files hold {stored.base_offset}..{stored.end_offset}",
        )
        self._require(
            model.start <= start <= max(model.asked_start, model.start),
            "log start stays",
            f"{where} starts at {start}; acknowledged {model.start}, asked for {model.asked_start}",
        )
        self._require(
            partition.leader_epoch > model.leader_epoch,
            "leader epochs rise",
            f"{where} is led in epoch {partition.leader_epoch} after {model.leader_epoch}",
        )
        model.leader_epoch = partition.leader_epoch
        model.start = start

    def _check_end(self, where: TopicPartition, state: TopicState, model: PartitionModel, end: int) -> None:
        promised = max(model.acknowledged, default=-1) + 1
        if SYNCED.items() <= state.configs.items():
            self._require(
                end >= promised, "fsynced records survive", f"{where} ends at {end}, {promised} was acknowledged"
            )
        synced = self._model.synced_ends.get(where, 0)
        self._require(end >= synced, "fsynced records survive", f"{where} ends at {end}, {synced} was fsynced")
        checkpoint = self._recovery_points().get(where, 0)
        self._require(
            end >= checkpoint, "fsynced records survive", f"{where} ends at {end}, its recovery point is {checkpoint}"
        )

    def _recovery_points(self) -> dict[TopicPartition, int]:
        path = f"{LOG_DIR}/{RECOVERY_POINT_CHECKPOINT}"
        try:
            return read_offset_checkpoint(self._disk, path)
        except CorruptDataError as error:
            self._require(False, "files decode", str(error))
            raise

    def _check_content(
        self, where: TopicPartition, topic_id: uuid.UUID, model: PartitionModel, stored: StoredLog, start: int
    ) -> None:
        found: dict[int, bytes] = {}
        for record in stored.records():
            value = record.value
            assert value is not None
            self._require(value in self._model.sent, "nothing invented", f"{where}@{record.offset}: {value[:40]!r}")
            self._require(
                self._model.homes.get(value, topic_id) == topic_id,
                "re-created topics are empty",
                f"{where}@{record.offset} holds {value[:40]!r} of another topic",
            )
            found[record.offset] = value
        for offset, value in (model.acknowledged | model.seen).items():
            self._require(
                offset < start or found.get(offset) == value,
                "acknowledged records stay",
                f"{where}@{offset}: {found.get(offset, b'nothing')[:40]!r} instead of {value[:40]!r}",
            )
        self._check_order(where, found)
        model.seen = {offset: value for offset, value in found.items() if offset >= start}

    def _check_order(self, where: TopicPartition, found: dict[int, bytes]) -> None:
        model = self._model
        may_repeat = model.may_repeat if where.topic in NEVER_ROLLED else model.may_repeat_behind_rolls
        last: dict[bytes, int] = {}
        for offset, value in sorted(found.items()):
            producer, number, _ = value.split(b":", 2)
            previous = last.get(producer, -1)
            repeats = not producer.startswith(b"idempotent") or value in may_repeat
            self._require(
                int(number) > previous or repeats,
                "once and in order",
                f"{where}@{offset}: {producer!r} number {int(number)} after {previous}",
            )
            last[producer] = max(previous, int(number))

    def _check_producers(self, where: TopicPartition, partition: Partition, stored: StoredLog) -> None:
        actual = partition.log.producer_state.entries
        for producer_id, entry in stored.producer_state().entries.items():
            if entry.batches[-1].last_offset < partition.log.log_start_offset:
                continue
            known = actual.get(producer_id)
            self._require(
                known is not None
                and (known.producer_epoch, known.last_sequence) == (entry.producer_epoch, entry.last_sequence),
                "producer state fits the log",
                f"{where}: producer {producer_id} is at {known and known.last_sequence}, "
                f"the log at {entry.last_sequence}",
            )

    def _require(self, condition: bool, name: str, message: str) -> None:
        self._trace.require(condition, name, message)


def actual_state(node: Node, name: str) -> TopicState | None:
    """Return what the node's metadata says of a topic."""
    image = node.context.quorum.image
    topic = image.topics.by_name.get(name)
    if topic is None:
        return None
    configs = dict(image.configs.get(ConfigResourceType.TOPIC, name))
    return TopicState(topic.topic_id, len(topic.partitions), configs)
