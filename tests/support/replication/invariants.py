"""What must hold for a partition in the metadata, before and after any change."""

from __future__ import annotations

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.partition_change import RECOVERING
from crabka.metadata.image import MetadataImage
from crabka.metadata.topics import PartitionImage

NO_LEADER = -1


class BrokenReplicationError(AssertionError):
    """An invariant that does not hold, by its name."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def check(condition: bool, invariant: str, message: object = "") -> None:
    """Raise unless a named invariant holds."""
    if not condition:
        raise BrokenReplicationError(invariant, str(message))


def check_image(image: MetadataImage) -> None:
    """Check every partition by itself."""
    for topic in image.topics.by_id.values():
        for partition in topic.partitions.values():
            check_partition(partition)


def check_partition(partition: PartitionImage) -> None:
    """Check the parts of a partition against each other."""
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    check(len(replicas) == len(partition.replicas), "replicas are distinct", partition)
    check(len(isr) == len(partition.isr) and isr <= replicas, "ISR within replicas", partition)
    check(elr <= replicas and not elr & isr, "ELR apart from ISR", partition)
    check(partition.leader == NO_LEADER or partition.leader in isr, "leader in ISR", partition)
    check(bool(isr) or partition.leader == NO_LEADER, "no leader without ISR", partition)
    check(len(partition.directories) == len(partition.replicas), "a directory per replica", partition)
    check(set(partition.adding) | set(partition.removing) <= replicas, "reassignment within replicas", partition)
    if partition.leader_recovery_state == RECOVERING:
        check(len(isr) <= 1, "a recovering leader is alone", partition)


def check_step(before: MetadataImage, after: MetadataImage) -> None:
    """Check what a step did to the partitions that were there before."""
    view = ControlView(after)
    for topic_id, topic in before.topics.by_id.items():
        now = after.topics.by_id.get(topic_id)
        if now is None:
            continue
        for index, old in topic.partitions.items():
            _check_change(view, old, now.partitions[index])


def _check_change(view: ControlView, old: PartitionImage, new: PartitionImage) -> None:
    if new == old:
        return
    check(new.partition_epoch > old.partition_epoch, "partition epoch rises", (old, new))
    joined = set(new.isr) - set(old.isr)
    check(all(view.is_active(each) for each in joined), "only living brokers join the ISR", (old, new))
    if new.leader != old.leader:
        check(new.leader_epoch > old.leader_epoch, "leader epoch rises with the leader", (old, new))
        check(new.leader == NO_LEADER or view.is_active(new.leader), "only living brokers are elected", (old, new))
    dropped = not set(old.replicas) <= set(new.replicas)
    if dropped:
        check(new.leader_epoch > old.leader_epoch, "leader epoch rises when replicas go", (old, new))
    if new.leader_epoch != old.leader_epoch:
        check(
            dropped or new.leader != old.leader or new.leader_epoch - old.leader_epoch > 1,
            "leader epoch rises only when it must",
            (old, new),
        )
    if new.leader_recovery_state == RECOVERING and old.leader_recovery_state != RECOVERING:
        check(new.leader != NO_LEADER and new.isr == (new.leader,), "unclean leaders begin alone", (old, new))
