"""AlterPartition: a leader proposes an ISR (KIP-497), with leader recovery (KIP-704) and broker epochs (KIP-903).

The requesting broker must be the leader in its newest epoch and must know the newest partition epoch. No replica that
is fenced, stopping or of an older incarnation joins the ISR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import PartitionEdits, configured_election
from crabka.controller.decisions.partition_change import RECOVERED, RECOVERING, PartitionTarget
from crabka.ids import DIRECTORY_LOST
from crabka.metadata.requests import Outcome
from crabka.metadata.topics import NO_LEADER_CHANGE
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.ids import TopicId
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage

# A member of an ISR whose broker epoch the leader does not know; version 2 of the request has no epochs.
ANY_BROKER_EPOCH = -1


class IsrMember(NamedTuple):
    """A replica of a proposed ISR, as the leader knows it."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """The proposal of a leader for one partition."""

    topic_id: TopicId
    partition_id: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[IsrMember]
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """The answer for one partition: its state after the change, or None with an error."""

    topic_id: TopicId
    partition_id: int
    error_code: ErrorCode
    partition: PartitionImage | None = None


def alter_partitions(
    image: MetadataImage,
    rules: ControllerRules,
    proposals: Sequence[IsrProposal],
    *,
    broker_id: int,
    broker_epoch: int,
) -> Outcome[list[AlteredPartition]]:
    """Decide on the proposals of one leader, in their order.

    Raises OperationError (STALE_BROKER_EPOCH) unless the request is from the broker's registered incarnation.
    """
    view = ControlView(image, rules)
    view.require_broker_epoch(broker_id, broker_epoch)
    edits = PartitionEdits(view)
    results = [_alter(edits, proposal, broker_id) for proposal in proposals]
    return Outcome(results, list(edits.records))


def _alter(edits: PartitionEdits, proposal: IsrProposal, broker_id: int) -> AlteredPartition:
    topic = edits.view.image.topics.by_id.get(proposal.topic_id)
    if topic is None:
        return _answer(proposal, ErrorCode.unknown_topic_id)
    partition = edits.partition(topic, proposal.partition_id)
    if partition is None:
        return _answer(proposal, ErrorCode.unknown_topic_or_partition)
    fault = _fault(edits.view, partition, proposal, broker_id)
    if fault is not ErrorCode.none:
        return _answer(proposal, fault)
    return _carry_out(edits, topic, proposal, broker_id)


def _carry_out(edits: PartitionEdits, topic: TopicImage, proposal: IsrProposal, broker_id: int) -> AlteredPartition:
    target = PartitionTarget(
        isr=tuple(member.broker_id for member in proposal.isr),
        leader_recovery_state=proposal.leader_recovery_state,
        election=configured_election(edits.view, topic),
    )
    record = edits.change(topic, proposal.partition_id, target)
    if record is not None and record.leader not in (broker_id, NO_LEADER_CHANGE):
        # The ISR completed a reassignment that moves the leadership. This error accompanies an accepted change.
        return _answer(proposal, ErrorCode.new_leader_elected)
    return _answer(proposal, ErrorCode.none, edits.partition(topic, proposal.partition_id))


def _answer(proposal: IsrProposal, error_code: ErrorCode, partition: PartitionImage | None = None) -> AlteredPartition:
    return AlteredPartition(proposal.topic_id, proposal.partition_id, error_code, partition)


def _fault(view: ControlView, partition: PartitionImage, proposal: IsrProposal, broker_id: int) -> ErrorCode:
    """Return why a proposal is refused, in Kafka's order of checks."""
    newer_leader = proposal.leader_epoch > partition.leader_epoch
    if newer_leader or proposal.partition_epoch > partition.partition_epoch:
        # The leader has newer metadata than this controller, so another controller is active.
        return ErrorCode.not_controller
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if broker_id != partition.leader:
        return ErrorCode.invalid_request
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    if not _is_sound(partition, proposal):
        return ErrorCode.invalid_request
    if any(not _is_eligible(view, partition, member) for member in proposal.isr):
        return ErrorCode.ineligible_replica
    return ErrorCode.none


def _is_sound(partition: PartitionImage, proposal: IsrProposal) -> bool:
    isr = [member.broker_id for member in proposal.isr]
    if len(set(isr)) != len(isr) or not set(partition.replicas).issuperset(isr) or partition.leader not in isr:
        return False
    if proposal.leader_recovery_state not in (RECOVERED, RECOVERING):
        return False
    if proposal.leader_recovery_state == RECOVERING:
        # Only an unclean election starts a recovery; no replica joins the ISR before it ends.
        return len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    return True


def _is_eligible(view: ControlView, partition: PartitionImage, member: IsrMember) -> bool:
    broker_id = member.broker_id
    # A replica that its broker reports as lost has no valid data, whatever an earlier fetch showed. While it
    # is eligible it has dropped nothing (a broker waits for that), and by its fetches has fetched what it lacked.
    is_lost = partition.directory_of(broker_id) == DIRECTORY_LOST and broker_id not in partition.elr
    if not view.is_active(broker_id) or is_lost:
        return False
    epoch = view.image.cluster.brokers[broker_id].epoch
    return member.broker_epoch in (ANY_BROKER_EPOCH, epoch)
