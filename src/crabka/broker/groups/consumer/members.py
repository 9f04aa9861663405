"""Members of a consumer group: heartbeats, static members, removal, downgrade (KIP-848, KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.deadlines import DeadlineKind
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
from crabka.broker.groups.records import group_pair
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.groups.consumer.assignment import GroupAssignment
    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.context import GroupContext
    from crabka.broker.groups.consumer.deadlines import MemberDeadlines
    from crabka.broker.groups.consumer.messages import ConsumerHeartbeat
    from crabka.broker.groups.consumer.store import GroupStore

_REJOIN = "The member must abandon all its partitions and rejoin."


class ConsumerMembers:
    """The members of one group, and the heartbeats of those that use the consumer protocol."""

    __slots__ = ("_assignment", "_context", "_deadlines", "_store")

    def __init__(
        self, context: GroupContext, store: GroupStore, deadlines: MemberDeadlines, assignment: GroupAssignment
    ) -> None:
        self._context = context
        self._store = store
        self._deadlines = deadlines
        self._assignment = assignment

    # -- heartbeat -----------------------------------------------------------------------------------------------

    def heartbeat(self, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatResult:
        """Process a heartbeat; return the answer. Raises OperationError."""
        if event.member_epoch < JOINING_EPOCH:
            return self._leave(event, now_ms)
        self.check_room(event.member_id)
        before = self._reporting_member(event)
        metadata = _updated(before.metadata, event)
        names_changed = metadata.topic_names != before.metadata.topic_names
        regex_changed = (metadata.topic_regex or "") != (before.metadata.topic_regex or "")
        member = self.put_metadata(before, metadata)
        changed = names_changed or regex_changed
        self._assignment.update_epoch(changed=self._assignment.update_patterns(now_ms) or changed)
        self._assignment.maybe_update_target(now_ms)
        member = self._assignment.reconcile_member(member, event.owned, now_ms, subscription_changed=changed)
        self._deadlines.extend_session(member, now_ms)
        is_shown = event.is_full or member.current.assigned != before.current.assigned
        return ConsumerHeartbeatResult(
            ErrorCode.none,
            None,
            member.member_id,
            member.current.epoch,
            self._context.settings.heartbeat_interval_ms,
            member.current.assigned if is_shown else None,
        )

    def put_metadata(self, member: ConsumerMember, metadata: MemberMetadata) -> ConsumerMember:
        """Store the metadata of a member; return its new state."""
        if member.member_id not in self._store.data.members or metadata != member.metadata:
            self._store.write(MemberRecord(self._context.group_id, member.member_id, metadata))
        return self._store.data.members[member.member_id]

    def check_room(self, member_id: str) -> None:
        """Raise OperationError if the group is full and this member is not in it yet."""
        limit = self._context.settings.max_size
        if len(self._store.data.members) >= limit and member_id not in self._store.data.members:
            message = f"The consumer group has reached its maximum capacity of {limit} members."
            raise OperationError(ErrorCode.group_max_size_reached, message)

    def _reporting_member(self, event: ConsumerHeartbeat) -> ConsumerMember:
        is_joining = event.member_epoch == JOINING_EPOCH
        if event.instance_id is not None:
            known = self._store.data.static_member(event.instance_id)
            if is_joining and known is not None:
                if not known.uses_classic_protocol and known.current.epoch != STATIC_LEAVING_EPOCH:
                    message = f"The instance id {event.instance_id} is owned by member {known.member_id}."
                    raise OperationError(ErrorCode.unreleased_instance_id, message)
                return self.replace_member(known, event.member_id)
            if not is_joining:
                self.check_static(known, event.member_id, event.instance_id)
        elif not is_joining and event.member_id not in self._store.data.members:
            raise self._context.unknown_member(event.member_id)
        member = self._store.data.members.get(event.member_id) or ConsumerMember(event.member_id)
        if not is_joining:
            _check_epoch(member, event.member_epoch, event.owned)
        return member

    def check_static(self, known: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
        """Return the member of an instance. Raises OperationError if there is none or it has another id."""
        if known is None:
            raise OperationError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
        if known.member_id != member_id:
            message = f"Static member {member_id} with instance id {instance_id} was fenced by {known.member_id}."
            raise OperationError(ErrorCode.fenced_instance_id, message)
        return known

    def replace_member(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Replace a static member by its next process; return the new member."""
        target = self._store.data.target_of(old.member_id)
        current = old.current._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
        self.remove_member(old)
        self._store.write(MemberRecord(self._context.group_id, member_id, old.metadata))
        self._store.write(TargetRecord(self._context.group_id, member_id, target))
        self._store.write(CurrentRecord(self._context.group_id, member_id, current))
        return self._store.data.members[member_id]

    # -- leaving -------------------------------------------------------------------------------------------------

    def _leave(self, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatResult:
        if event.instance_id is None:
            member = self._store.data.members.get(event.member_id)
            if member is None:
                raise self._context.unknown_member(event.member_id)
        else:
            known = self._store.data.static_member(event.instance_id)
            member = self.check_static(known, event.member_id, event.instance_id)
        if event.member_epoch == STATIC_LEAVING_EPOCH and event.instance_id is not None:
            self._leave_temporarily(member)
        else:
            self.fence([member], now_ms)
        return ConsumerHeartbeatResult(ErrorCode.none, None, event.member_id, event.member_epoch)

    def _leave_temporarily(self, member: ConsumerMember) -> None:
        """Keep the assignment of a static member until its session ends; it has nothing left to revoke."""
        assigned = {topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.current.assigned.items()}
        current = member.current._replace(epoch=STATIC_LEAVING_EPOCH, assigned=assigned, revoking=NOTHING_ASSIGNED)
        self._store.write(CurrentRecord(self._context.group_id, member.member_id, current))
        self._deadlines.cancel(DeadlineKind.REBALANCE, member.member_id)

    def remove_member(self, member: ConsumerMember) -> None:
        """Remove a member with all its records."""
        self._store.write(CurrentRecord(self._context.group_id, member.member_id, None))
        self._store.write(TargetRecord(self._context.group_id, member.member_id, None))
        self._store.write(MemberRecord(self._context.group_id, member.member_id, None))
        self._deadlines.cancel_all(member.member_id)

    def fence(self, members: Sequence[ConsumerMember], now_ms: int) -> None:
        """Remove members; the group becomes a classic one if only classic members are left."""
        leaving = {member.member_id for member in members}
        if self._can_downgrade(leaving):
            self.downgrade(leaving, now_ms, rebalances=True)
            return
        for member in members:
            self.remove_member(member)
        self._assignment.update_patterns(now_ms)
        self._assignment.update_epoch(changed=True)

    # -- downgrade -----------------------------------------------------------------------------------------------

    def _can_downgrade(self, leaving: set[str]) -> bool:
        others = [member for member_id, member in self._store.data.members.items() if member_id not in leaving]
        return (
            bool(others)
            and any(not self._store.data.members[each].uses_classic_protocol for each in leaving)
            and all(member.uses_classic_protocol for member in others)
            and self._context.settings.migration_policy.allows_downgrade
            and len(others) <= self._context.settings.classic_max_size
        )

    def downgrade(self, leaving: set[str], now_ms: int, *, rebalances: bool) -> None:
        """Become a classic group of the other members; they join again unless all have their target."""
        rebalances = rebalances or not has_settled(self._store.data, leaving)
        group = downgraded_group(self._context.group_id, self._store.data, leaving, self._context.catalog, now_ms)
        for record in list(self._store.data.tombstones(self._context.group_id)):
            self._store.write(record)
        self._store.write_pair(group_pair(self._context.group_id, group.snapshot(group.assignments())))
        self._deadlines.clear()
        self._store.hold(Downgraded(group, rebalances))


def _updated(metadata: MemberMetadata, event: ConsumerHeartbeat) -> MemberMetadata:
    """Return the metadata of a member after a heartbeat: fields that it leaves out did not change."""
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
        message = f"The member epoch {epoch} is greater than the known {current.epoch}. {_REJOIN}"
        raise OperationError(ErrorCode.fenced_member_epoch, message)
    # The answer with the newest epoch may have been lost.
    if epoch < current.epoch and not (epoch == current.previous_epoch and is_subset(owned, current.assigned)):
        message = f"The member epoch {epoch} is smaller than the known {current.epoch}. {_REJOIN}"
        raise OperationError(ErrorCode.fenced_member_epoch, message)
