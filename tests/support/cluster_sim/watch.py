"""What must be true of a cluster at every moment, seen by looking into its nodes while they run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from crabka.broker.partition.purgatory import ReachedOffsets
from crabka.ids import TopicPartition
from crabka.metadata.image import MetadataImage
from tests.support.cluster_sim.machine import ClusterMachine
from tests.support.cluster_sim.model import ClusterModel
from tests.support.cluster_sim.probe import ClusterProbe, Replica, ReplicaBatch, partitions_of, stored_batches
from tests.support.cluster_sim.trace import ClusterTrace

ONE_LEADER = "one leader per epoch"
ONE_CONTROLLER = "one active controller per epoch"
METADATA = "committed metadata is never lost"
RISING_WATERMARK = "the high watermark of a leader never goes back"
BELOW_MIN_ISR = "the high watermark stands still below min ISR"
UNFENCED = "no fenced broker is in an ISR with others"
IN_SYNC = "members of the ISR hold everything below the high watermark"
EQUAL = "members of the ISR agree below the high watermark"
ACKNOWLEDGED = "acknowledged records are on every member of the ISR"
EPOCHS = "leader epochs rise within a log"
ALIVE = "nodes start and stay alive"
PLACES = "the metadata know in which log dir a replica lies"
WAITING = "every wait has something to wait for"
SMALL_STEP_S = 0.04
LARGE_STEP_S = 2.0


@dataclass
class CommittedEnd:
    """How far any leader's high watermark of a partition ever was."""

    end: int = 0
    excuses: int = 0
    # What older leaders said is void since records were excused.
    first_epoch: int = 0


class ClusterWatch:
    """Looks at every interval."""

    def __init__(
        self, machines: list[ClusterMachine], probe: ClusterProbe, model: ClusterModel, trace: ClusterTrace
    ) -> None:
        self._machines = machines
        self._probe = probe
        self._model = model
        self._trace = trace
        self._leaders: dict[tuple[str, int, int], str] = {}
        self._controllers: dict[int, str] = {}
        # By place, leader epoch and life of the leader: a restarted one begins at its checkpoint.
        self._watermarks: dict[tuple[str, int, int, int], int] = {}
        self._committed: dict[tuple[str, int], CommittedEnd] = {}
        # High watermarks of leaders that were below min ISR at the last look, by life and partition epoch.
        self._standing: dict[tuple[int, ...], int] = {}
        self.looks = 0

    async def watch_forever(self) -> None:
        """Look at small and at large, until cancelled."""
        while True:
            for _ in range(int(LARGE_STEP_S / SMALL_STEP_S)):
                await asyncio.sleep(SMALL_STEP_S)
                self.look()
            self.look_deep()

    def look(self) -> None:
        """Check what is cheap to see. Raises BrokenInvariantError."""
        self.looks += 1
        self.check_nodes()
        if not self._probe.has_image:
            return
        image = self._probe.image
        self._model.observe(image)
        self._check_controllers(image)
        self._check_fenced(image)
        standing, self._standing = self._standing, {}
        for replica in self._probe.replicas():
            if replica.partition.is_leader:
                self._check_leader(replica, image)
                self._check_below_min_isr(replica, image, standing)
            self._check_waiting(replica)
        for place in self._committed:
            self._check_in_sync(place, image)

    def look_deep(self) -> None:
        """Compare the files of all members of each ISR. Raises BrokenInvariantError."""
        image = self._probe.image
        for (topic, index), committed in self._committed.items():
            if not self._exists(image, topic, index) or committed.excuses:
                continue
            contents = [
                (replica, self._batches(replica, committed.end)) for replica in self._probe.in_sync(image, topic, index)
            ]
            for replica, batches in contents[1:]:
                first, expected = contents[0]
                start = max(each.partition.log.log_start_offset for each in (first, replica))
                self._check_equal(replica, _above(batches, start), first, _above(expected, start))

    def misplaced(self) -> list[Replica]:
        """Return the replicas that lie in another log dir than the metadata say, apart from those that move."""
        image = self._probe.image
        found = []
        for replica in self._probe.replicas():
            node, partition = replica.machine.node, replica.partition
            if node is None or not self._exists(image, partition.topic, partition.index):
                continue
            known = image.topics.by_name[partition.topic].partitions[partition.index]
            directory = node.context.logs.directory_id(partition.log.log_dir)
            is_here = replica.machine.spec.node_id in known.replicas
            if is_here and known.directory_of(replica.machine.spec.node_id) != directory:
                found.append(replica)
        return found

    def check_places(self) -> None:
        """The metadata say where replicas lie. Raises BrokenInvariantError."""
        for machine, partition in self.misplaced():
            where = f"{partition.topic}-{partition.index} at {machine.name} lies in {partition.log.log_dir}"
            self._require(False, PLACES, where)

    def check_acknowledged(self, where: TopicPartition, value: bytes, offset: int) -> None:
        """A record was acknowledged: then every replica of the ISR has it."""
        image = self._probe.image
        if offset < 0 or self._model.is_excused(where) or not self._exists(image, *where):
            return
        for replica in self._probe.in_sync(image, *where):
            end = replica.partition.log.log_end_offset
            self._require(end > offset, ACKNOWLEDGED, f"{where}@{offset} {value[:30]!r}: {replica.machine.name} {end}")

    def leader_epochs(self, where: TopicPartition) -> list[int]:
        """Return the epochs of all who believe to lead a partition."""
        return self._probe.leader_epochs(*where)

    # -- one by one ----------------------------------------------------------------------------------------------

    def check_nodes(self) -> None:
        """No client gave up. Raises BrokenInvariantError."""
        for machine in self._machines:
            self._require(machine.failure is None, ALIVE, f"{machine.name}: {machine.failure!r}")
            node = machine.node
            if node is not None and node.failed.done():
                self._require(False, ALIVE, f"{machine.name} failed: {node.failed.exception()!r}")

    def _check_controllers(self, image: MetadataImage) -> None:
        active = self._probe.active_controllers()
        for each in active:
            other = self._controllers.setdefault(each.epoch, each.name)
            self._require(other == each.name, ONE_CONTROLLER, f"{other} and {each.name} in epoch {each.epoch}")
        for each in active:
            if each.epoch >= max(self._controllers):
                self._require(
                    each.holds(image),
                    METADATA,
                    f"{each.name} leads in epoch {each.epoch} with a log up to {each.log.end_offset} and without "
                    f"{image.offset} of epoch {image.epoch}, which was committed",
                )

    def _check_fenced(self, image: MetadataImage) -> None:
        for topic, index, partition in partitions_of(image):
            fenced = [each for each in partition.isr if image.cluster.brokers[each].fenced]
            self._require(
                not fenced or len(partition.isr) == 1, UNFENCED, f"{topic}-{index}: {fenced} of {partition.isr}"
            )

    def _check_below_min_isr(
        self, replica: Replica, image: MetadataImage, standing: dict[tuple[int, ...], int]
    ) -> None:
        machine, partition = replica
        log = partition.log
        if partition.in_sync_count >= min(log.config.min_insync_replicas, partition.replica_count):
            return
        place = (partition.topic, partition.index)
        if not self._exists(image, *place):
            return
        state = image.topics.by_name[place[0]].partitions[place[1]]
        key = (hash(place), state.partition_epoch, partition.leader_epoch, machine.spec.node_id, machine.generation)
        before = self._standing[key] = log.high_watermark
        self._require(
            standing.get(key, before) == before,
            BELOW_MIN_ISR,
            f"{place} at {machine.name}: {before} after {standing.get(key)}, {partition.in_sync_count} in sync",
        )

    def _check_leader(self, replica: Replica, image: MetadataImage) -> None:
        machine, partition = replica
        place = (partition.topic, partition.index)
        epoch, high_watermark = partition.leader_epoch, partition.log.high_watermark
        other = self._leaders.setdefault((*place, epoch), machine.name)
        self._require(other == machine.name, ONE_LEADER, f"{place}: {other} and {machine.name} in epoch {epoch}")
        life = (*place, epoch, machine.generation)
        before = self._watermarks.get(life, 0)
        self._require(
            before <= high_watermark <= partition.log.log_end_offset,
            RISING_WATERMARK,
            f"{place} at {machine.name}: {high_watermark} after {before}, the log ends at "
            f"{partition.log.log_end_offset}",
        )
        self._watermarks[life] = high_watermark
        committed = self._committed.setdefault(place, CommittedEnd())
        ledger = self._model.partitions[TopicPartition(*place)]
        if committed.excuses != ledger.excuses and self._exists(image, *place):
            current = image.topics.by_name[partition.topic].partitions[partition.index]
            committed.excuses, committed.end, committed.first_epoch = ledger.excuses, 0, current.leader_epoch + 1
        if epoch >= committed.first_epoch:
            committed.end = max(committed.end, high_watermark)

    def _check_waiting(self, replica: Replica) -> None:
        """An acks=all is answered when its records are replicated, not when its time is up."""
        machine, partition = replica
        if machine.is_paused:
            return
        for waiter in partition.waiters.for_readable:
            condition = waiter._condition
            required = condition._required.get(partition) if isinstance(condition, ReachedOffsets) else None
            outcome = None if required is None else partition.acknowledgement(required)
            self._require(
                outcome is None,
                WAITING,
                f"{partition.topic}-{partition.index} at {machine.name}: {required} has come to {outcome}",
            )

    def _check_in_sync(self, place: tuple[str, int], image: MetadataImage) -> None:
        committed = self._committed[place]
        if not self._exists(image, *place):
            return
        state = image.topics.by_name[place[0]].partitions[place[1]]
        if state.leader_epoch < committed.first_epoch or committed.excuses != self._excuses(place):
            return
        for replica in self._probe.in_sync(image, *place):
            end = replica.partition.log.log_end_offset
            self._require(
                end >= committed.end,
                IN_SYNC,
                f"{place}: the log of {replica.machine.name} ends at {end}, {committed.end} was committed; "
                f"ISR {state.isr}, leader {state.leader} in epoch {state.leader_epoch}",
            )

    def _check_equal(
        self, replica: Replica, batches: list[ReplicaBatch], first: Replica, expected: list[ReplicaBatch]
    ) -> None:
        place = (replica.partition.topic, replica.partition.index)
        for ours, theirs in zip(batches, expected, strict=False):
            self._require(
                ours.data == theirs.data,
                EQUAL,
                f"{place}: {replica.machine.name} has {_short(ours)}, {first.machine.name} {_short(theirs)}",
            )

    def _batches(self, replica: Replica, end: int) -> list[ReplicaBatch]:
        log = replica.partition.log
        batches = stored_batches(replica.machine.disk, log.path)
        last = -1
        for batch in batches:
            epoch = batch.header.partition_leader_epoch
            self._require(
                epoch >= last, EPOCHS, f"{log.topic_partition} at {replica.machine.name}: {_short(batch)} after {last}"
            )
            last = epoch
        return [batch for batch in batches if batch.header.last_offset < end]

    def _excuses(self, place: tuple[str, int]) -> int:
        return self._model.partitions[TopicPartition(*place)].excuses

    @staticmethod
    def _exists(image: MetadataImage, topic: str, index: int) -> bool:
        found = image.topics.by_name.get(topic)
        return found is not None and index in found.partitions

    def _require(self, condition: bool, name: str, message: str) -> None:
        self._trace.require(condition, name, message)


def _above(batches: list[ReplicaBatch], start: int) -> list[ReplicaBatch]:
    return [batch for batch in batches if batch.header.base_offset >= start]


def _short(batch: ReplicaBatch) -> str:
    header = batch.header
    return (
        f"{header.base_offset}..{header.last_offset} of epoch {header.partition_leader_epoch}, "
        f"producer {header.producer_id}/{header.producer_epoch}@{header.base_sequence}"
    )
