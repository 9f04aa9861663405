"""What clients were promised, and which of it may be lost.

Kafka acknowledges what is in the page cache of every member of the ISR. It may be lost only if all members of ISR and
ELR ended uncleanly before any of them was in sync again, and at least one of them lost its page cache or a disk then:
Kafka cannot tell a killed process from a power cut. The model follows which members are to be trusted. A partition
whose last trusted member goes is excused: what was written to it so far may be there or not, and what had no answer may
be there twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from crabka.ids import TopicPartition
from crabka.metadata.image import MetadataImage
from tests.support.cluster_sim.trace import ClusterTrace


@dataclass
class RecordLedger:
    """What is known of the records of one partition."""

    sent: dict[bytes, None] = field(default_factory=dict)
    # Value -> offset, -1 where the answer only said that it is there.
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    # Records whose loss or repetition is excused.
    may_be_missing: set[bytes] = field(default_factory=set)
    may_repeat: set[bytes] = field(default_factory=set)
    # How often the partition was excused: what was seen before says nothing about what is seen after.
    excuses: int = 0
    # Whether nothing was acknowledged since: a log that lost its producers takes any sequence first, as in Kafka.
    has_lost_producers: bool = False

    def excuse(self) -> None:
        """Let go of everything up to now."""
        self.excuses += 1
        self.has_lost_producers = True
        self.may_be_missing.update(self.sent)
        self.allow_repeats()

    def allow_repeats(self) -> None:
        """Whatever has no answer may be written once more."""
        self.may_repeat.update(value for value in self.sent if value not in self.acknowledged)


@dataclass
class TrustedReplicas:
    """Who of a partition's replicas is known to have what was acknowledged."""

    members: set[int] = field(default_factory=set)
    # Who ended uncleanly since it was last in sync, with the broker epoch of that life; and who lost data with that.
    ended: dict[int, int] = field(default_factory=dict)
    lossy: set[int] = field(default_factory=set)
    # Whether no replica is left, so that what was written may be lost.
    is_hopeless: bool = False


class ClusterModel:
    """All promises to clients of one run."""

    def __init__(self, trace: ClusterTrace, now_s: Callable[[], float]) -> None:
        self.partitions: defaultdict[TopicPartition, RecordLedger] = defaultdict(RecordLedger)
        self.trusted: defaultdict[TopicPartition, TrustedReplicas] = defaultdict(TrustedReplicas)
        self.acknowledged_count = 0
        # Called with each acknowledgement: where, when it was sent, when it was acknowledged.
        self.on_acknowledged: list[Callable[[TopicPartition, float, float], None]] = []
        self._trace = trace
        self._now_s = now_s

    # -- records -------------------------------------------------------------------------------------------------

    def send(self, where: TopicPartition, value: bytes) -> None:
        """A producer is about to write a unique value."""
        self.partitions[where].sent[value] = None

    def acknowledge(self, where: TopicPartition, value: bytes, offset: int, sent_s: float) -> None:
        """The record of a producer was acknowledged."""
        ledger = self.partitions[where]
        if ledger.has_lost_producers:
            ledger.has_lost_producers = False
            ledger.allow_repeats()
        ledger.acknowledged[value] = offset
        self.acknowledged_count += 1
        for notify in self.on_acknowledged:
            notify(where, sent_s, self._now_s())

    def is_excused(self, where: TopicPartition) -> bool:
        """Return whether records of a partition may be lost."""
        return self.partitions[where].excuses > 0

    def note_start(self, broker_id: int, image: MetadataImage) -> None:
        """A broker starts on what its disk holds.

        Kafka's snapshots of producers hold one batch of each. A client that had several without an answer sends all of
        them again, and those before the last are no longer known as duplicates, here as in Kafka.
        """
        for topic in image.topics.by_name.values():
            for index, partition in topic.partitions.items():
                if broker_id in partition.replicas:
                    self.partitions[TopicPartition(topic.name, index)].allow_repeats()

    # -- who is to be trusted ------------------------------------------------------------------------------------

    def observe(self, image: MetadataImage) -> None:
        """Take over from the newest metadata who is in sync."""
        for topic in image.topics.by_name.values():
            for index, partition in topic.partitions.items():
                where = TopicPartition(topic.name, index)
                trusted = self.trusted[where]
                if partition.leader in trusted.lossy and partition.leader in partition.isr:
                    self._judge_leader(where, partition.leader, image)
                # With no replica in sync, the last leader returns as leader, with what it has.
                members = {*partition.isr, *partition.elr} or set(partition.last_known_elr)
                for member in trusted.ended.keys() & set(partition.isr):
                    broker = image.cluster.brokers.get(member)
                    if broker is not None and broker.epoch > trusted.ended[member]:
                        # It registered again, which took it out, and it was let in again.
                        del trusted.ended[member]
                        trusted.lossy.discard(member)
                trusted.members = members
                # The controller may have taken out who was alive but could not be heard, and kept who is dead.
                self._judge(where)

    def note_end(self, broker_id: int, image: MetadataImage, *, loses_data: bool) -> None:
        """A broker ends uncleanly."""
        self.observe(image)
        broker = image.cluster.brokers.get(broker_id)
        epoch = broker.epoch if broker is not None else -1
        for where, trusted in self.trusted.items():
            if broker_id not in trusted.members:
                continue
            trusted.ended.setdefault(broker_id, epoch)
            if loses_data:
                trusted.lossy.add(broker_id)
                trusted.is_hopeless = False
            self._judge(where)

    def _judge_leader(self, where: TopicPartition, leader: int, image: MetadataImage) -> None:
        """Accept the election of the last leader, which has lost records since: no other replica was left."""
        trusted = self.trusted[where]
        if image.cluster.brokers[leader].epoch > trusted.ended[leader] and not trusted.is_hopeless:
            self._trace.note(f"{where} may lose records: {leader} leads again after a loss")
            self.partitions[where].excuse()

    def _judge(self, where: TopicPartition) -> None:
        trusted = self.trusted[where]
        before = trusted.is_hopeless
        trusted.is_hopeless = trusted.members <= trusted.ended.keys() and bool(trusted.lossy & trusted.members)
        if trusted.is_hopeless and not before:
            self._trace.note(f"{where} may lose records: none of {sorted(trusted.members)} is left")
            self.partitions[where].excuse()
