"""Online migration of groups between the classic and the consumer protocol; their offsets stay (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.embedded import (
    decode_assignment_untrusted,
    decode_subscription_untrusted,
    encode_assignment,
)
from crabka.broker.groups.consumer.member import ClassicMetadata, ConsumerMember, CurrentAssignment, MemberMetadata
from crabka.broker.groups.consumer.records import (
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from crabka.broker.groups.member import ClassicMember
from crabka.broker.groups.membership import CONSUMER_PROTOCOL_TYPE, ClassicSettings, GroupState, Membership
from crabka.errors import OperationError, WireError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Collection, Iterator

    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.catalog import TopicCatalog
    from crabka.broker.groups.consumer.records import ConsumerRecord
    from crabka.broker.groups.consumer.settings import ConsumerSettings
    from crabka.broker.groups.consumer.state import ConsumerGroupData


def check_upgrade(group: Membership, settings: ConsumerSettings) -> None:
    """Raise OperationError if a classic group with members cannot become a consumer group."""
    if not settings.migration_policy.allows_upgrade:
        reason = "the online upgrade is disabled"
    elif not group.uses_consumer_protocol:
        reason = "its members do not use the consumer embedded protocol"
    elif len(group.members) > settings.max_size:
        reason = "it has more members than a consumer group may have"
    else:
        return
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    raise OperationError(ErrorCode.group_id_not_found, message)


def upgrade_records(group: Membership, catalog: TopicCatalog) -> list[ConsumerRecord]:
    """Return the records that turn a classic group into a consumer group with the same assignments.

    Raises OperationError: GROUP_ID_NOT_FOUND if the metadata of a member cannot be read.
    """
    try:
        members = [_Upgraded(member, group, catalog) for member in group.members.values()]
    except WireError as error:
        message = f"Cannot upgrade classic group {group.group_id}: its embedded consumer protocol is malformed."
        raise OperationError(ErrorCode.group_id_not_found, message) from error
    return list(_upgrade_records(group, members))


class _Upgraded:
    """A classic member as a member of a consumer group."""

    def __init__(self, member: ClassicMember, group: Membership, catalog: TopicCatalog) -> None:
        protocol = group.protocol or member.protocols[0][0]
        subscription = decode_subscription_untrusted(member.metadata(protocol))
        self.member_id = member.member_id
        self.partitions: Partitions = decode_assignment_untrusted(member.assignment, catalog)
        self.metadata = MemberMetadata(
            member.instance_id,
            subscription.rack_id,
            member.client_id,
            member.client_host,
            tuple(sorted(set(subscription.topics))),
            "",
            member.rebalance_timeout_ms,
            None,
            ClassicMetadata(member.session_timeout_ms, member.protocols),
        )


def _upgrade_records(group: Membership, members: list[_Upgraded]) -> Iterator[ConsumerRecord]:
    group_id, epoch = group.group_id, group.generation
    for member in members:
        yield MemberRecord(group_id, member.member_id, member.metadata)
    yield GroupEpochRecord(group_id, epoch)
    for member in members:
        yield TargetRecord(group_id, member.member_id, member.partitions)
    yield TargetEpochRecord(group_id, epoch)
    for member in members:
        assigned = {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in member.partitions.items()}
        yield CurrentRecord(group_id, member.member_id, CurrentAssignment(epoch, epoch, assigned=assigned))


def downgraded_group(
    group_id: str, data: ConsumerGroupData, leaving: Collection[str], catalog: TopicCatalog, now_ms: int
) -> Membership:
    """Return the classic group of the remaining members, each with its assigned and its revoking partitions.

    Kafka stores the target, which members may not have reached: a partition that one of them still uses would seem
    free if the group became a consumer group again before they joined. All remaining members must use the classic
    protocol. The caller sets the settings of the group, and rebalances it unless `has_settled`.
    """
    group = Membership(group_id, ClassicSettings(), now_ms)
    group.generation = data.epoch
    for member_id, member in data.members.items():
        classic = member.metadata.classic
        if member_id in leaving or classic is None:
            continue
        metadata = member.metadata
        joined = ClassicMember(
            member_id,
            metadata.instance_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            protocols=classic.protocols,
        )
        joined.session_timeout_ms = classic.session_timeout_ms
        joined.rebalance_timeout_ms = metadata.rebalance_timeout_ms
        group.add(joined, CONSUMER_PROTOCOL_TYPE)
        group.set_member_deadline(joined, now_ms + joined.session_timeout_ms)
    group.settle(group.select_protocol(), GroupState.STABLE)
    for joined in group.members.values():
        version = decode_subscription_untrusted(joined.metadata(group.protocol)).version
        joined.assignment = encode_assignment(_held_by(data.members[joined.member_id]), catalog, version)
    return group


def has_settled(data: ConsumerGroupData, leaving: Collection[str]) -> bool:
    """Return whether every remaining member has exactly its target."""
    return all(
        member_id in leaving or _held_by(member) == data.target_of(member_id)
        for member_id, member in data.members.items()
    )


def _held_by(member: ConsumerMember) -> Partitions:
    held: dict[uuid.UUID, frozenset[int]] = {}
    for partitions in (member.current.assigned, member.current.revoking):
        for topic_id, numbers in partitions.items():
            held[topic_id] = held.get(topic_id, frozenset()) | numbers.keys()
    return held
