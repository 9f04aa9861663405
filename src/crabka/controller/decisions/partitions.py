"""Adding partitions to topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.placement import place_partitions
from crabka.controller.decisions.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    check_living_replica,
    check_manual_assignment,
    free,
    new_partition_record,
)
from crabka.errors import OperationError
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from crabka.controller.decisions.topics import Charge
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import TopicImage


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic that shall have `count` partitions in all."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


def create_partitions(
    image: MetadataImage,
    wanted: Sequence[MorePartitions],
    rng: random.Random,
    *,
    validate_only: bool = False,
    charge: Charge = free,
) -> Outcome[dict[str, ItemVerdict]]:
    """Decide on more partitions, topic by topic."""
    records: list[Any] = []
    results: dict[str, ItemVerdict] = {}
    names = [request.topic for request in wanted]
    for request in wanted:
        if request.topic in results:
            continue
        try:
            if names.count(request.topic) > 1:
                raise OperationError(ErrorCode.invalid_request, "Duplicate topic name.")
            added = _grow(image, request, rng)
            charge(len(added))
            records += added
            results[request.topic] = ACCEPTED
        except OperationError as error:
            results[request.topic] = ItemVerdict.of(error)
    return Outcome(results, [] if validate_only else records)


def _grow(image: MetadataImage, request: MorePartitions, rng: random.Random) -> list[Any]:
    topic = image.topics.by_name.get(request.topic)
    if topic is None:
        raise OperationError(ErrorCode.unknown_topic_or_partition)
    present = len(topic.partitions)
    if request.count == present:
        raise OperationError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if request.count < present:
        raise OperationError(
            ErrorCode.invalid_partitions,
            f"The topic {request.topic} currently has {present} partition(s); "
            f"{request.count} would not be an increase.",
        )
    added = request.count - present
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise OperationError(
            ErrorCode.policy_violation,
            f"Excessively large number of partitions per request; the limit is {MAX_PARTITIONS_PER_REQUEST}.",
        )
    replicas = _replicas_of_added(image, topic, request, added=added, rng=rng)
    return [
        new_partition_record(image, topic.topic_id, present + position, replicas[position]) for position in range(added)
    ]


def _replicas_of_added(
    image: MetadataImage, topic: TopicImage, request: MorePartitions, *, added: int, rng: random.Random
) -> list[list[int]]:
    replication_factor = len(topic.partitions[0].replicas)
    if request.assignments is None:
        return place_partitions(image, partition_count=added, replication_factor=replication_factor, rng=rng)
    if len(request.assignments) != added:
        raise OperationError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), but only {len(request.assignments)} assignment(s) "
            "were specified.",
        )
    replicas = [list(assignment) for assignment in request.assignments]
    for index, assignment in enumerate(replicas, start=len(topic.partitions)):
        check_manual_assignment(image, assignment, replication_factor=replication_factor)
        check_living_replica(image, index, assignment)
    return replicas
