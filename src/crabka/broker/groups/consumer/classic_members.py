"""Members of a consumer group that use the classic protocol, while the group moves to the other protocol (KIP-848).

Such a member joins with its embedded subscription and gets an assignment at once. It has to join again whenever it
must revoke partitions or can get more. No member leads: the coordinator assigns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.deadlines import DeadlineKind
from crabka.broker.groups.consumer.embedded import (
    EmbeddedSubscription,
    decode_subscription_untrusted,
    encode_assignment,
)
from crabka.broker.groups.consumer.member import ClassicMetadata, ConsumerMember, ReconciliationState
from crabka.broker.groups.membership import CONSUMER_PROTOCOL_TYPE
from crabka.broker.groups.messages import UNKNOWN_MEMBER, JoinResult, LeaveResult, SyncResult
from crabka.errors import OperationError, WireError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.consumer.assignment import GroupAssignment
    from crabka.broker.groups.consumer.context import GroupContext
    from crabka.broker.groups.consumer.deadlines import MemberDeadlines
    from crabka.broker.groups.consumer.member import MemberMetadata
    from crabka.broker.groups.consumer.members import ConsumerMembers
    from crabka.broker.groups.consumer.store import GroupStore
    from crabka.broker.groups.messages import Heartbeat, Join, Leave, MemberIdentity, Sync


class ClassicMembers:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a consumer group."""

    __slots__ = ("_assignment", "_context", "_deadlines", "_members", "_store")

    def __init__(
        self,
        context: GroupContext,
        store: GroupStore,
        deadlines: MemberDeadlines,
        assignment: GroupAssignment,
        members: ConsumerMembers,
    ) -> None:
        self._context = context
        self._store = store
        self._deadlines = deadlines
        self._assignment = assignment
        self._members = members

    # -- join ----------------------------------------------------------------------------------------------------

    def join(self, join: Join, now_ms: int) -> JoinResult:
        """Process a join; return the answer. Raises OperationError."""
        member_id = join.member_id or join.new_member_id
        self._members.check_room(member_id)
        names = {name for name, _ in join.protocols}
        if join.protocol_type != CONSUMER_PROTOCOL_TYPE or not self._store.data.supports_classic_protocols(names):
            raise OperationError(ErrorCode.inconsistent_group_protocol)
        if join.member_id == UNKNOWN_MEMBER and join.instance_id is None and join.requires_known_member_id:
            return JoinResult(ErrorCode.member_id_required, member_id)
        subscription = _subscription_of(join)
        before = self._joining_member(join, member_id)
        had_consumers = self._has_consumers() or not before.uses_classic_protocol
        metadata = _joined_metadata(before.metadata, join, subscription)
        changed = metadata.topic_names != before.metadata.topic_names
        member = self._members.put_metadata(before, metadata)
        self._assignment.update_epoch(changed=self._assignment.update_patterns(now_ms) or changed)
        self._assignment.maybe_update_target(now_ms)
        owned = subscription.owned_in(self._context.catalog)
        member = self._assignment.reconcile_member(member, owned, now_ms, subscription_changed=changed)
        result = JoinResult(
            ErrorCode.none, member_id, member.current.epoch, CONSUMER_PROTOCOL_TYPE, join.protocols[0][0]
        )
        if had_consumers and not self._has_consumers() and self._may_be_classic():
            # The last member with the consumer protocol was replaced by this one.
            self._members.downgrade(set(), now_ms, rebalances=False)
            return result
        self._deadlines.cancel(DeadlineKind.JOIN, member_id)
        self._deadlines.extend_session(member, now_ms)
        self._deadlines.set(DeadlineKind.SYNC, member_id, now_ms + join.rebalance_timeout_ms)
        return result

    def _joining_member(self, join: Join, member_id: str) -> ConsumerMember:
        if join.instance_id is not None:
            known = self._store.data.static_member(join.instance_id)
            if join.member_id != UNKNOWN_MEMBER:
                return self._members.check_static(known, member_id, join.instance_id)
            if known is not None:
                return self._members.replace_member(known, member_id)
        return self._store.data.members.get(member_id) or ConsumerMember(member_id)

    def _has_consumers(self) -> bool:
        return any(not member.uses_classic_protocol for member in self._store.data.members.values())

    def _may_be_classic(self) -> bool:
        settings = self._context.settings
        return settings.migration_policy.allows_downgrade and len(self._store.data.members) <= settings.classic_max_size

    # -- sync and heartbeat --------------------------------------------------------------------------------------

    def sync(self, sync: Sync, now_ms: int) -> SyncResult:
        """Return the assignment of a member. Raises OperationError."""
        member, classic = self._classic_member(sync.member_id, sync.instance_id, sync.generation)
        protocol, metadata = classic.protocols[0]
        if sync.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or sync.protocol not in (None, protocol):
            raise OperationError(ErrorCode.inconsistent_group_protocol)
        is_revoking = member.current.state is ReconciliationState.UNREVOKED_PARTITIONS
        if self._store.data.epoch > member.current.epoch and not is_revoking:
            self._expect_join(member, now_ms)
            raise OperationError(ErrorCode.rebalance_in_progress)
        self._deadlines.cancel(DeadlineKind.SYNC, member.member_id)
        self._deadlines.extend_session(member, now_ms)
        version = decode_subscription_untrusted(metadata).version
        assignment = encode_assignment(member.current.assigned, self._context.catalog, version)
        return SyncResult(ErrorCode.none, sync.protocol_type, sync.protocol, assignment)

    def heartbeat(self, heartbeat: Heartbeat, now_ms: int) -> ErrorCode:
        """Extend a session; return whether the member has to join again. Raises OperationError."""
        member, _ = self._classic_member(heartbeat.member_id, heartbeat.instance_id, heartbeat.generation)
        self._deadlines.extend_session(member, now_ms)
        current = member.current
        has_to_join = (
            current.epoch < self._store.data.epoch
            or current.state is ReconciliationState.UNREVOKED_PARTITIONS
            or (
                current.state is ReconciliationState.UNRELEASED_PARTITIONS
                and not self._store.data.is_waiting_for_others(member)
            )
        )
        if not has_to_join:
            return ErrorCode.none
        self._expect_join(member, now_ms)
        return ErrorCode.rebalance_in_progress

    def _expect_join(self, member: ConsumerMember, now_ms: int) -> None:
        if not self._deadlines.is_set(DeadlineKind.JOIN, member.member_id):
            deadline_ms = now_ms + member.metadata.rebalance_timeout_ms
            self._deadlines.set(DeadlineKind.JOIN, member.member_id, deadline_ms)

    def _classic_member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerMember, ClassicMetadata]:
        member = self._identified(member_id, instance_id)
        classic = member.metadata.classic
        if classic is None:
            raise self._context.unknown_member(member_id)
        if member.current.epoch != generation:
            raise OperationError(ErrorCode.illegal_generation)
        return member, classic

    def _identified(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        if instance_id is not None:
            return self._members.check_static(self._store.data.static_member(instance_id), member_id, instance_id)
        member = self._store.data.members.get(member_id)
        if member is None:
            raise self._context.unknown_member(member_id)
        return member

    # -- leave ---------------------------------------------------------------------------------------------------

    def leave(self, leave: Leave, now_ms: int) -> LeaveResult:
        """Remove members that leave or that an administrator removes."""
        rows: list[tuple[MemberIdentity, ErrorCode]] = []
        gone: dict[str, ConsumerMember] = {}
        for identity in leave.members:
            try:
                member = self._leaving(identity)
            except OperationError as error:
                rows.append((identity, error.error_code))
                continue
            gone[member.member_id] = member
            rows.append((identity._replace(member_id=member.member_id), ErrorCode.none))
        if gone:
            self._members.fence(list(gone.values()), now_ms)
        return LeaveResult(ErrorCode.none, tuple(rows))

    def _leaving(self, identity: MemberIdentity) -> ConsumerMember:
        if identity.instance_id is not None and identity.member_id == UNKNOWN_MEMBER:
            known = self._store.data.static_member(identity.instance_id)
            member_id = known.member_id if known is not None else UNKNOWN_MEMBER
            member = self._identified(member_id, identity.instance_id)
        else:
            member = self._identified(identity.member_id, identity.instance_id)
        if not member.uses_classic_protocol and identity.instance_id is None:
            raise self._context.unknown_member(identity.member_id)
        return member


def _subscription_of(join: Join) -> EmbeddedSubscription:
    try:
        return decode_subscription_untrusted(join.protocols[0][1])
    except WireError as error:
        raise OperationError(ErrorCode.inconsistent_group_protocol, str(error)) from error


def _joined_metadata(metadata: MemberMetadata, join: Join, subscription: EmbeddedSubscription) -> MemberMetadata:
    return metadata._replace(
        instance_id=join.instance_id if join.instance_id is not None else metadata.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else metadata.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        classic=ClassicMetadata(join.session_timeout_ms, join.protocols),
    )
