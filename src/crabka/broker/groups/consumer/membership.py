"""Members of a consumer group come, report, are replaced and go (KIP-848, static members: KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.assigning import Assigning
from crabka.broker.groups.consumer.member import (
    JOINING_EPOCH,
    NOTHING_ASSIGNED,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberMetadata,
    is_subset,
)
from crabka.broker.groups.consumer.messages import ConsumerHeartbeatResult, Downgraded
from crabka.broker.groups.consumer.migration import downgraded_group, has_settled
from crabka.broker.groups.consumer.records import CurrentRecord, MemberRecord, TargetRecord
from crabka.broker.groups.consumer.stored_group import DeadlineKind
from crabka.broker.groups.records import group_pair
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.messages import ConsumerHeartbeat

_REJOIN = "The member must abandon all its partitions and rejoin."


class ConsumerMembership(Assigning):
    """Who belongs to the group, and the heartbeats of those that speak its own protocol."""

    __slots__ = ()

    # -- heartbeat -----------------------------------------------------------------------------------------------

    def consumer_heartbeat(self, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatResult:
        """Take a report in; return the answer. Raises OperationError."""
        if event.member_epoch < JOINING_EPOCH:
            return self._leave(event, now_ms)
        self.check_room(event.member_id)
        before = self._reporting_member(event)
        metadata = _updated(before.metadata, event)
        names_changed = metadata.topic_names != before.metadata.topic_names
        regex_changed = (metadata.topic_regex or "") != (before.metadata.topic_regex or "")
        member = self.put_metadata(before, metadata)
        changed = self.update_patterns(now_ms) or names_changed or regex_changed
        self.update_epoch(changed=changed)
        self.maybe_update_target(now_ms)
        member = self.reconcile_member(member, event.owned, now_ms, subscription_changed=names_changed or regex_changed)
        self.extend_session(member, now_ms)
        tell = event.is_full or member.current.assigned != before.current.assigned
        return ConsumerHeartbeatResult(
            ErrorCode.none,
            None,
            member.member_id,
            member.current.epoch,
            self.settings.heartbeat_interval_ms,
            member.current.assigned if tell else None,
        )

    def put_metadata(self, member: ConsumerMember, metadata: MemberMetadata) -> ConsumerMember:
        """Take over what a member told of itself; return it as it is now."""
        if member.member_id not in self.data.members or metadata != member.metadata:
            self.write(MemberRecord(self.group_id, member.member_id, metadata))
        return self.data.members[member.member_id]

    def check_room(self, member_id: str) -> None:
        """Raise OperationError if somebody who is not in the group yet finds it full."""
        limit = self.settings.max_size
        if len(self.data.members) >= limit and member_id not in self.data.members:
            message = f"The consumer group has reached its maximum capacity of {limit} members."
            raise OperationError(ErrorCode.group_max_size_reached, message)

    def _reporting_member(self, event: ConsumerHeartbeat) -> ConsumerMember:
        is_joining = event.member_epoch == JOINING_EPOCH
        if event.instance_id is not None:
            known = self.data.static_member(event.instance_id)
            if is_joining and known is not None:
                if not known.uses_classic_protocol and known.current.epoch != STATIC_LEAVING_EPOCH:
                    message = f"The instance id {event.instance_id} is owned by member {known.member_id}."
                    raise OperationError(ErrorCode.unreleased_instance_id, message)
                return self.replace_member(known, event.member_id)
            if not is_joining:
                self.check_static(known, event.member_id, event.instance_id)
        elif not is_joining and event.member_id not in self.data.members:
            raise self.unknown_member(event.member_id)
        member = self.data.members.get(event.member_id) or ConsumerMember(event.member_id)
        if not is_joining:
            _check_epoch(member, event.member_epoch, event.owned)
        return member

    def unknown_member(self, member_id: str) -> OperationError:
        """Return the error of somebody who is not in the group."""
        message = f"Member {member_id} is not a member of group {self.group_id}."
        return OperationError(ErrorCode.unknown_member_id, message)

    def check_static(self, known: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
        """Return the member of an instance. Raises OperationError if there is none or it has another id."""
        if known is None:
            raise OperationError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
        if known.member_id != member_id:
            message = f"Static member {member_id} with instance id {instance_id} was fenced by {known.member_id}."
            raise OperationError(ErrorCode.fenced_instance_id, message)
        return known

    def replace_member(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give the place of a static member to its next process; return that one."""
        target = self.data.target_of(old.member_id)
        current = old.current._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
        self.remove_member(old)
        self.write(MemberRecord(self.group_id, member_id, old.metadata))
        self.write(TargetRecord(self.group_id, member_id, target))
        self.write(CurrentRecord(self.group_id, member_id, current))
        return self.data.members[member_id]

    # -- leaving -------------------------------------------------------------------------------------------------

    def _leave(self, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatResult:
        if event.instance_id is None:
            member = self.data.members.get(event.member_id)
            if member is None:
                raise self.unknown_member(event.member_id)
        else:
            known = self.data.static_member(event.instance_id)
            member = self.check_static(known, event.member_id, event.instance_id)
        if event.member_epoch == STATIC_LEAVING_EPOCH and event.instance_id is not None:
            self._leave_for_a_while(member)
        else:
            self.fence([member], now_ms)
        return ConsumerHeartbeatResult(ErrorCode.none, None, event.member_id, event.member_epoch)

    def _leave_for_a_while(self, member: ConsumerMember) -> None:
        """Keep the place of a static member until its session ends; it has nothing to give up any more."""
        assigned = {topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.current.assigned.items()}
        current = member.current._replace(epoch=STATIC_LEAVING_EPOCH, assigned=assigned, revoking=NOTHING_ASSIGNED)
        self.write(CurrentRecord(self.group_id, member.member_id, current))
        self.cancel_deadline(DeadlineKind.REBALANCE, member.member_id)

    def remove_member(self, member: ConsumerMember) -> None:
        """Remove a member with all that is known of it."""
        self.write(CurrentRecord(self.group_id, member.member_id, None))
        self.write(TargetRecord(self.group_id, member.member_id, None))
        self.write(MemberRecord(self.group_id, member.member_id, None))
        self.cancel_deadlines(member.member_id)

    def fence(self, members: Sequence[ConsumerMember], now_ms: int) -> None:
        """Remove members; the group goes on without them, as a classic group if only classic members are left."""
        leaving = {member.member_id for member in members}
        if self._can_downgrade(leaving):
            self.downgrade(leaving, now_ms, rebalances=True)
            return
        for member in members:
            self.remove_member(member)
        self.update_patterns(now_ms)
        self.update_epoch(changed=True)

    # -- downgrade -----------------------------------------------------------------------------------------------

    def _can_downgrade(self, leaving: set[str]) -> bool:
        others = [member for member_id, member in self.data.members.items() if member_id not in leaving]
        return (
            bool(others)
            and any(not self.data.members[each].uses_classic_protocol for each in leaving)
            and all(member.uses_classic_protocol for member in others)
            and self.settings.migration_policy.allows_downgrade
            and len(others) <= self.settings.classic_max_size
        )

    def downgrade(self, leaving: set[str], now_ms: int, *, rebalances: bool) -> None:
        """Become a classic group of the members that stay, which join again if what they have is not the target."""
        rebalances = rebalances or not has_settled(self.data, leaving)
        group = downgraded_group(self.group_id, self.data, leaving, self.catalog, now_ms)
        for record in list(self.data.tombstones(self.group_id)):
            self.write(record)
        self.write_pair(group_pair(self.group_id, group.snapshot(group.assignments())))
        self.deadlines.clear()
        self.hold(Downgraded(group, rebalances))


def _updated(metadata: MemberMetadata, event: ConsumerHeartbeat) -> MemberMetadata:
    """Return what is known of a member after a report: what it leaves out did not change."""
    names = metadata.topic_names if event.topic_names is None else tuple(sorted(set(event.topic_names)))
    timeout_ms = event.rebalance_timeout_ms
    return MemberMetadata(
        event.instance_id if event.instance_id is not None else metadata.instance_id,
        event.rack_id if event.rack_id is not None else metadata.rack_id,
        event.client_id,
        event.client_host,
        names,
        event.topic_regex if event.topic_regex is not None else metadata.topic_regex,
        timeout_ms if timeout_ms != -1 else metadata.rebalance_timeout_ms,
        event.server_assignor if event.server_assignor is not None else metadata.server_assignor,
    )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    current = member.current
    if epoch > current.epoch:
        message = f"The member epoch {epoch} is greater than {current.epoch}, which the coordinator knows. {_REJOIN}"
        raise OperationError(ErrorCode.fenced_member_epoch, message)
    # The answer that brought the newest epoch may have got lost.
    if epoch < current.epoch and not (epoch == current.previous_epoch and is_subset(owned, current.assigned)):
        message = f"The member epoch {epoch} is smaller than {current.epoch}, which the coordinator knows. {_REJOIN}"
        raise OperationError(ErrorCode.fenced_member_epoch, message)
