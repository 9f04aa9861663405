"""Reassignments: new replicas for a partition without loss of redundancy (KIP-455, KIP-860).

New replicas are added to the old ones first. When all target replicas are in sync, as reported by the leader's
AlterPartition, the old ones are dropped (`partition_change`). Until then it can be cancelled or replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import PartitionEdits, configured_election, has_reachable_replica
from crabka.controller.decisions.partition_change import PartitionTarget
from crabka.controller.decisions.topics import check_manual_assignment
from crabka.errors import OperationError
from crabka.metadata.requests import ItemVerdict, Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target replicas of a partition; None cancels a reassignment under way."""

    topic: str
    partition_id: int
    replicas: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class ReassignmentVerdict:
    """The answer for one partition."""

    topic: str
    partition_id: int
    verdict: ItemVerdict


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A reassignment that is not complete."""

    topic: str
    partition_id: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def alter_reassignments(
    image: MetadataImage,
    rules: ControllerRules,
    wanted: Sequence[Reassignment],
    *,
    allow_replication_factor_change: bool = True,
) -> Outcome[list[ReassignmentVerdict]]:
    """Start, replace or cancel reassignments; an invalid one does not stop the others."""
    edits = PartitionEdits(ControlView(image, rules))
    results = []
    for each in wanted:
        try:
            topic, partition = _find(edits, each)
            if each.replicas is None:
                _cancel(edits, topic, each.partition_id, partition)
            else:
                _aim(edits, topic, each, partition, allow_replication_factor_change=allow_replication_factor_change)
            verdict = ItemVerdict()
        except OperationError as error:
            verdict = ItemVerdict.of(error)
        results.append(ReassignmentVerdict(each.topic, each.partition_id, verdict))
    return Outcome(results, list(edits.records))


def list_reassignments(image: MetadataImage, partitions: Iterable[tuple[str, int]] | None) -> list[OngoingReassignment]:
    """Return the reassignments under way of the given partitions, or of all; unknown ones are left out."""
    topics = image.topics
    if partitions is None:
        partitions = [(topic.name, index) for topic in topics.by_name.values() for index in topic.partitions]
    return [
        OngoingReassignment(name, index, found.replicas, found.adding, found.removing)
        for name, index in partitions
        if (found := topics.partition(name, index)) is not None and _is_under_way(found)
    ]


def _is_under_way(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def _find(edits: PartitionEdits, wanted: Reassignment) -> tuple[TopicImage, PartitionImage]:
    topic = edits.view.image.topics.by_name.get(wanted.topic)
    if topic is None:
        raise OperationError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {wanted.topic}.")
    partition = edits.partition(topic, wanted.partition_id)
    if partition is None:
        raise OperationError(
            ErrorCode.unknown_topic_or_partition, f"Unable to find partition {wanted.topic}:{wanted.partition_id}."
        )
    return topic, partition


def _aim(
    edits: PartitionEdits,
    topic: TopicImage,
    wanted: Reassignment,
    partition: PartitionImage,
    *,
    allow_replication_factor_change: bool,
) -> None:
    target = list(wanted.replicas or ())
    check_manual_assignment(edits.view.image, target, replication_factor=None)
    if not allow_replication_factor_change:
        _check_replication_factor(partition, target)
    original = set(partition.replicas) - set(partition.adding)
    # Replicas that an earlier target added and this one does not are dropped at once, so that a cancel restores the
    # original replicas. Kafka keeps them among the replicas to remove and forgets that they were new.
    unwanted = set(partition.adding) - set(target)
    isr = [replica for replica in partition.isr if replica not in unwanted]
    if partition.isr and not isr:
        # No other replica is in sync, so it has to stay until one is.
        isr, original = list(partition.isr), original | unwanted
    removing = sorted(original - set(target))
    adding = sorted(set(target) - original)
    change = PartitionTarget(isr=isr, replicas=[*target, *removing], removing=removing, adding=adding)
    edits.change(topic, wanted.partition_id, change)


def _check_replication_factor(partition: PartitionImage, target: list[int]) -> None:
    settled = {*partition.replicas, *partition.adding} - set(partition.removing)
    present = len(settled) if _is_under_way(partition) else len(partition.replicas)
    if len(target) != present:
        raise OperationError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {present} to {len(target)}",
        )


def _cancel(edits: PartitionEdits, topic: TopicImage, index: int, partition: PartitionImage) -> None:
    if not _is_under_way(partition):
        raise OperationError(ErrorCode.no_reassignment_in_progress)
    replicas = [replica for replica in partition.replicas if replica not in partition.adding]
    isr = [replica for replica in partition.isr if replica not in partition.adding]
    if not replicas:
        raise OperationError(
            ErrorCode.invalid_replica_assignment, "Invalid replica assignment: addingReplicas contains all replicas."
        )
    if partition.isr and not isr:
        _check_unclean_cancel(edits, topic, index, partition, replicas)
    change = PartitionTarget(
        isr=isr, replicas=replicas, removing=(), adding=(), election=configured_election(edits.view, topic)
    )
    edits.change(topic, index, change)


def _check_unclean_cancel(
    edits: PartitionEdits, topic: TopicImage, index: int, partition: PartitionImage, replicas: list[int]
) -> None:
    """Only new replicas are in sync. To cancel would elect an old one, which may lack records."""
    view = edits.view
    is_clean = any(replica in partition.elr for replica in replicas)
    if not is_clean and not view.unclean_election_enabled(topic):
        raise OperationError(
            ErrorCode.invalid_replica_assignment,
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
            "leader election.",
        )
    can_lead = any(view.is_active(each) and has_reachable_replica(view, partition, each) for each in replicas)
    if not can_lead and not view.elr_enabled:
        # Kafka cancels anyway, with an in-sync replica that cannot be reached.
        raise OperationError(
            ErrorCode.invalid_replica_assignment,
            f"Unable to revert partition assignment for {topic.name}:{index} because none of the former replicas "
            "can lead.",
        )
