"""ElectLeaders (KIP-183, KIP-460) and the elections that the controller starts itself.

An operator may request the preferred leader or, as a last resort, an unclean one. The controller itself re-elects
preferred leaders and, where a topic allows it, unclean ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import PartitionEdits
from crabka.controller.decisions.partition_change import Election, PartitionTarget
from crabka.errors import OperationError
from crabka.metadata.requests import ItemVerdict, Outcome
from crabka.metadata.topics import NO_LEADER
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage

# Elections in one batch; more wait for the next batch (Kafka's MAX_ELECTIONS_PER_IMBALANCE).
MAX_ELECTIONS_PER_TURN = 1000


class ElectionType(IntEnum):
    """Kinds of elections, by Kafka's ids."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionElection:
    """The answer for one partition."""

    topic: str
    partition_id: int
    verdict: ItemVerdict


def elect_leaders(
    image: MetadataImage,
    rules: ControllerRules,
    election_type: int,
    partitions: Sequence[tuple[str, int]] | None,
) -> Outcome[list[PartitionElection]]:
    """Elect leaders of the given partitions, or of all; then partitions that need no election are left out.

    Raises OperationError (INVALID_REQUEST) for an unknown kind of election.
    """
    if election_type not in ElectionType.__members__.values():
        raise OperationError(ErrorCode.invalid_request, f"Unknown election type {election_type}")
    kind = ElectionType(election_type)
    edits = PartitionEdits(ControlView(image, rules))
    wanted = _all_partitions(image) if partitions is None else partitions
    results = [PartitionElection(topic, index, _elect(edits, topic, index, kind)) for topic, index in wanted]
    if partitions is None:
        results = [each for each in results if each.verdict.error_code is not ErrorCode.election_not_needed]
    return Outcome(results, list(edits.records))


def balance_leaders(
    image: MetadataImage, rules: ControllerRules, *, max_elections: int = MAX_ELECTIONS_PER_TURN
) -> Outcome[bool]:
    """Elect preferred leaders; True if more may be left for another batch."""
    view = ControlView(image, rules)
    due = ((topic, index) for topic, index, partition in view.partitions() if partition.leader != partition.replicas[0])
    return _elect_some(view, due, Election.PREFERRED, max_elections)


def elect_unclean_leaders(
    image: MetadataImage, rules: ControllerRules, *, max_elections: int = MAX_ELECTIONS_PER_TURN
) -> Outcome[bool]:
    """Elect leaders of partitions without one whose topic allows unclean elections; True if more may be left."""
    view = ControlView(image, rules)
    due = (
        (topic, index)
        for topic, index, partition in view.partitions()
        if partition.leader == NO_LEADER and view.unclean_election_enabled(topic)
    )
    return _elect_some(view, due, Election.UNCLEAN, max_elections)


def _elect_some(
    view: ControlView, due: Iterable[tuple[TopicImage, int]], election: Election, max_elections: int
) -> Outcome[bool]:
    edits = PartitionEdits(view)
    for topic, index in due:
        if len(edits.records) >= max_elections:
            return Outcome(result=True, records=list(edits.records))
        edits.change(topic, index, PartitionTarget(election=election))
    return Outcome(result=False, records=list(edits.records))


def _all_partitions(image: MetadataImage) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in image.topics.by_name.values() for index in topic.partitions]


def _elect(edits: PartitionEdits, topic_name: str, index: int, kind: ElectionType) -> ItemVerdict:
    try:
        topic = edits.view.image.topics.by_name.get(topic_name)
        if topic is None:
            raise OperationError(ErrorCode.unknown_topic_or_partition, f"No such topic as {topic_name}")
        partition = edits.partition(topic, index)
        if partition is None:
            raise OperationError(ErrorCode.unknown_topic_or_partition, f"No such partition as {topic_name}-{index}")
        _elect_known(edits, topic, index, partition, kind=kind)
    except OperationError as error:
        return ItemVerdict.of(error)
    return ItemVerdict()


def _elect_known(
    edits: PartitionEdits, topic: TopicImage, index: int, partition: PartitionImage, *, kind: ElectionType
) -> None:
    is_preferred = kind is ElectionType.PREFERRED
    is_needed = partition.leader != partition.replicas[0] if is_preferred else partition.leader == NO_LEADER
    if not is_needed:
        raise OperationError(ErrorCode.election_not_needed)
    election = Election.PREFERRED if is_preferred else Election.UNCLEAN
    record = edits.change(topic, index, PartitionTarget(election=election))
    if record is None:
        raise OperationError(
            ErrorCode.preferred_leader_not_available if is_preferred else ErrorCode.eligible_leaders_not_available
        )
