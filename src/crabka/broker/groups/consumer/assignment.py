"""The assignment of a consumer group: subscriptions, group epoch, target, and the steps of members towards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.groups.consumer.assignors.registry import ASSIGNORS
from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, Partitions, SpecMember
from crabka.broker.groups.consumer.deadlines import DeadlineKind
from crabka.broker.groups.consumer.member import ReconciliationState
from crabka.broker.groups.consumer.reconcile import Goal, reconcile
from crabka.broker.groups.consumer.records import (
    CurrentRecord,
    GroupEpochRecord,
    PartitionMetadataRecord,
    PatternRecord,
    ResolvedPattern,
    TargetEpochRecord,
    TargetRecord,
)
from crabka.broker.patterns import SUBSCRIPTION, compile_pattern, matching_topics

if TYPE_CHECKING:
    import uuid

    from crabka.broker.groups.consumer.context import GroupContext
    from crabka.broker.groups.consumer.deadlines import MemberDeadlines
    from crabka.broker.groups.consumer.member import ConsumerMember
    from crabka.broker.groups.consumer.store import GroupStore

# Patterns are not matched against changed topics more often than this.
PATTERN_BATCH_INTERVAL_MS: Final = 10_000


class GroupAssignment:
    """Derives the assignments of one group from its subscriptions."""

    __slots__ = ("_context", "_deadlines", "_store")

    def __init__(self, context: GroupContext, store: GroupStore, deadlines: MemberDeadlines) -> None:
        self._context = context
        self._store = store
        self._deadlines = deadlines

    # -- subscriptions -------------------------------------------------------------------------------------------

    def update_patterns(self, now_ms: int) -> bool:
        """Match patterns that are new or outdated; return whether the subscribed topics changed.

        Raises OperationError: INVALID_REGULAR_EXPRESSION.
        """
        data, changed = self._store.data, False
        wanted = data.subscribed_patterns()
        for pattern in [each for each in data.patterns if each not in wanted]:
            self._store.write(PatternRecord(self._context.group_id, pattern, None))
            changed = True
        due = wanted if self._patterns_are_due(now_ms) else wanted - data.patterns.keys()
        for pattern in sorted(due):
            compile_pattern(pattern, SUBSCRIPTION)
            topics = tuple(sorted(matching_topics(pattern, self._context.catalog.by_name)))
            before = data.patterns.get(pattern)
            changed |= before is None or before.topics != topics
            resolved = ResolvedPattern(topics, self._context.catalog.version, now_ms)
            self._store.write(PatternRecord(self._context.group_id, pattern, resolved))
        return changed

    def _patterns_are_due(self, now_ms: int) -> bool:
        patterns = self._store.data.patterns.values()
        if not patterns:
            return False
        last_ms = max(each.timestamp_ms for each in patterns)
        if now_ms >= last_ms + self._context.settings.regex_refresh_interval_ms:
            return True
        is_old = min(each.version for each in patterns) != self._context.catalog.version
        return is_old and now_ms >= last_ms + PATTERN_BATCH_INTERVAL_MS

    def update_epoch(self, *, changed: bool) -> None:
        """Begin a new group epoch if the subscriptions or their topics changed."""
        if not changed and self._store.metadata_version == self._context.catalog.version:
            return
        data = self._store.data
        metadata_hash = self._context.catalog.hash_of(data.subscribed_topics)
        self._store.metadata_version = self._context.catalog.version
        if changed or metadata_hash != data.metadata_hash:
            if data.has_partition_metadata:
                self._store.write(PartitionMetadataRecord(self._context.group_id))
            self._store.write(GroupEpochRecord(self._context.group_id, data.epoch + 1, metadata_hash))

    # -- target assignment ---------------------------------------------------------------------------------------

    def maybe_update_target(self, now_ms: int) -> None:
        """Compute the target assignment of the group's epoch, unless the last one is too recent."""
        data, interval_ms = self._store.data, self._context.settings.assignment_interval_ms
        if data.epoch <= data.assignment_epoch:
            return
        if data.assignment_timestamp_ms and interval_ms and now_ms < data.assignment_timestamp_ms + interval_ms:
            return
        target = ASSIGNORS[self._assignor_name()](self._spec())
        for member_id, partitions in target.items():
            if data.target.get(member_id) != partitions:
                self._store.write(TargetRecord(self._context.group_id, member_id, partitions))
        self._store.write(TargetEpochRecord(self._context.group_id, data.epoch, now_ms))

    def _assignor_name(self) -> str:
        offered = self._context.settings.assignors
        preferred = self._store.data.preferred_assignor()
        return preferred if preferred in offered and preferred is not None else offered[0]

    def _spec(self) -> AssignmentSpec:
        data, by_name = self._store.data, self._context.catalog.by_name
        members, counts = {}, {}
        # Members with the same subscription share the tuple of its topics.
        wanted: dict[frozenset[str], tuple[uuid.UUID, ...]] = {}
        for member_id, member in data.members.items():
            names = frozenset(data.topics_of(member))
            topic_ids = wanted.get(names)
            if topic_ids is None:
                topics = [topic for name in sorted(names) if (topic := by_name.get(name)) is not None]
                topic_ids = wanted[names] = tuple(topic.topic_id for topic in topics)
                counts.update({topic.topic_id: topic.partition_count for topic in topics})
            members[member_id] = SpecMember(member.metadata.instance_id, topic_ids, data.target_of(member_id))
        return AssignmentSpec(members, counts)

    # -- reconciliation ------------------------------------------------------------------------------------------

    def reconcile_member(
        self, member: ConsumerMember, owned: Partitions | None, now_ms: int, *, subscription_changed: bool = False
    ) -> ConsumerMember:
        """Move a member one step towards the target; return its new state.

        Raises OperationError: FENCED_MEMBER_EPOCH.
        """
        data = self._store.data
        if not subscription_changed and member.is_reconciled_to(data.assignment_epoch):
            return member
        by_name = self._context.catalog.by_name
        topic_ids = {by_name[name].topic_id for name in data.topics_of(member) if name in by_name}
        goal = Goal(
            data.assignment_epoch, data.target_of(member.member_id), topic_ids, data.is_free, subscription_changed
        )
        current = reconcile(member.current, goal, owned)
        if current == member.current:
            return member
        self._store.write(CurrentRecord(self._context.group_id, member.member_id, current))
        if not member.uses_classic_protocol:
            if current.state is ReconciliationState.UNREVOKED_PARTITIONS:
                deadline_ms = now_ms + member.metadata.rebalance_timeout_ms
                self._deadlines.set(DeadlineKind.REBALANCE, member.member_id, deadline_ms)
            else:
                self._deadlines.cancel(DeadlineKind.REBALANCE, member.member_id)
        return data.members[member.member_id]
