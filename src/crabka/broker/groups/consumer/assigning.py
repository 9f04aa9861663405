"""How a consumer group comes to its next assignment: subscriptions, group epoch, target, and steps towards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.groups.consumer.assignors.registry import ASSIGNORS
from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, Partitions, SpecMember
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
from crabka.broker.groups.consumer.stored_group import DeadlineKind, StoredGroup
from crabka.broker.patterns import SUBSCRIPTION, compile_pattern, matching_topics

if TYPE_CHECKING:
    import uuid

    from crabka.broker.groups.consumer.member import ConsumerMember

# Patterns are not matched against changed topics more often than this.
PATTERN_BATCH_INTERVAL_MS: Final = 10_000


class Assigning(StoredGroup):
    """The way from subscriptions to what members have."""

    __slots__ = ()

    # -- subscriptions -------------------------------------------------------------------------------------------

    def update_patterns(self, now_ms: int) -> bool:
        """Match patterns that are new or may mean other topics now; return whether what is subscribed changed.

        Raises OperationError: INVALID_REGULAR_EXPRESSION.
        """
        data, changed = self.data, False
        wanted = data.subscribed_patterns()
        for pattern in [each for each in data.patterns if each not in wanted]:
            self.write(PatternRecord(self.group_id, pattern, None))
            changed = True
        due = wanted if self._patterns_are_due(now_ms) else wanted - data.patterns.keys()
        for pattern in sorted(due):
            compile_pattern(pattern, SUBSCRIPTION)
            topics = tuple(sorted(matching_topics(pattern, self.catalog.by_name)))
            before = data.patterns.get(pattern)
            changed |= before is None or before.topics != topics
            resolved = ResolvedPattern(topics, self.catalog.version, now_ms)
            self.write(PatternRecord(self.group_id, pattern, resolved))
        return changed

    def _patterns_are_due(self, now_ms: int) -> bool:
        patterns = self.data.patterns.values()
        if not patterns:
            return False
        last_ms = max(each.timestamp_ms for each in patterns)
        if now_ms >= last_ms + self.settings.regex_refresh_interval_ms:
            return True
        is_old = min(each.version for each in patterns) != self.catalog.version
        return is_old and now_ms >= last_ms + PATTERN_BATCH_INTERVAL_MS

    def update_epoch(self, *, changed: bool) -> None:
        """Begin a new group epoch if the subscriptions or their topics changed."""
        if not changed and self.metadata_version == self.catalog.version:
            return
        data = self.data
        metadata_hash = self.catalog.hash_of(data.subscribed_topics)
        self.metadata_version = self.catalog.version
        if changed or metadata_hash != data.metadata_hash:
            if data.has_partition_metadata:
                self.write(PartitionMetadataRecord(self.group_id))
            self.write(GroupEpochRecord(self.group_id, data.epoch + 1, metadata_hash))

    # -- target assignment ---------------------------------------------------------------------------------------

    def maybe_update_target(self, now_ms: int) -> None:
        """Compute the target assignment of the group's epoch, unless the last one is too young."""
        data, interval_ms = self.data, self.settings.assignment_interval_ms
        if data.epoch <= data.assignment_epoch:
            return
        if data.assignment_timestamp_ms and interval_ms and now_ms < data.assignment_timestamp_ms + interval_ms:
            return
        target = ASSIGNORS[self._assignor_name()](self._spec())
        for member_id, partitions in target.items():
            if data.target.get(member_id) != partitions:
                self.write(TargetRecord(self.group_id, member_id, partitions))
        self.write(TargetEpochRecord(self.group_id, data.epoch, now_ms))

    def _assignor_name(self) -> str:
        offered = self.settings.assignors
        preferred = self.data.preferred_assignor()
        return preferred if preferred in offered and preferred is not None else offered[0]

    def _spec(self) -> AssignmentSpec:
        data, counts = self.data, {}
        members = {}
        # Members of one subscription share the tuple of its topics.
        wanted: dict[frozenset[str], tuple[uuid.UUID, ...]] = {}
        for member_id, member in data.members.items():
            names = frozenset(data.topics_of(member))
            topic_ids = wanted.get(names)
            if topic_ids is None:
                topics = [topic for name in sorted(names) if (topic := self.catalog.by_name.get(name)) is not None]
                topic_ids = wanted[names] = tuple(topic.topic_id for topic in topics)
                counts.update({topic.topic_id: topic.partition_count for topic in topics})
            members[member_id] = SpecMember(member.metadata.instance_id, topic_ids, data.target_of(member_id))
        return AssignmentSpec(members, counts)

    # -- reconciliation ------------------------------------------------------------------------------------------

    def reconcile_member(
        self, member: ConsumerMember, owned: Partitions | None, now_ms: int, *, subscription_changed: bool = False
    ) -> ConsumerMember:
        """Bring a member a step nearer to the target; return it as it is now.

        Raises OperationError: FENCED_MEMBER_EPOCH.
        """
        data = self.data
        if not subscription_changed and member.is_reconciled_to(data.assignment_epoch):
            return member
        by_name = self.catalog.by_name
        topic_ids = {by_name[name].topic_id for name in data.topics_of(member) if name in by_name}
        goal = Goal(
            data.assignment_epoch, data.target_of(member.member_id), topic_ids, data.is_free, subscription_changed
        )
        current = reconcile(member.current, goal, owned)
        if current == member.current:
            return member
        self.write(CurrentRecord(self.group_id, member.member_id, current))
        if not member.uses_classic_protocol:
            if current.state is ReconciliationState.UNREVOKED_PARTITIONS:
                deadline_ms = now_ms + member.metadata.rebalance_timeout_ms
                self.set_deadline(DeadlineKind.REBALANCE, member.member_id, deadline_ms)
            else:
                self.cancel_deadline(DeadlineKind.REBALANCE, member.member_id)
        return data.members[member.member_id]
