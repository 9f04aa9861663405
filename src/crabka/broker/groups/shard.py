"""The groups of one partition of `__consumer_offsets`: their replay, commits, removal and expiry."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from crabka.broker.coordinators import shards
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.catalog import TopicCatalog
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.consumer.records import encode_consumer_record
from crabka.broker.groups.consumer.settings import ConsumerSettings
from crabka.broker.groups.membership import GroupState, Membership
from crabka.broker.groups.offsets import CommittedOffset, OffsetStore, Place
from crabka.broker.groups.opaque import OpaqueGroup
from crabka.broker.groups.records import (
    GroupRecord,
    OffsetRecord,
    OpaqueRecord,
    Pair,
    StoredRecord,
    group_key,
    offset_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.groups.consumer.records import ConsumerRecord
    from crabka.broker.groups.membership import ClassicSettings

OFFSETS_TOPIC = "__consumer_offsets"

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup | OpaqueGroup


class GroupShard:
    """Groups and offsets of one partition."""

    __slots__ = ("_committing", "catalog", "consumer_settings", "groups", "offsets", "settings")

    def __init__(
        self,
        settings: ClassicSettings,
        catalog: TopicCatalog | None = None,
        consumer_settings: Callable[[str], ConsumerSettings] = lambda _group_id: ConsumerSettings(),
    ) -> None:
        self.settings = settings
        self.catalog = catalog if catalog is not None else TopicCatalog()
        self.consumer_settings = consumer_settings
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = OffsetStore()
        # Groups with commits in flight.
        self._committing: Counter[str] = Counter()

    def attach(self, catalog: TopicCatalog, consumer_settings: Callable[[str], ConsumerSettings]) -> None:
        """Set the topics and settings of consumer groups, before any group exists."""
        self.catalog = catalog
        self.consumer_settings = consumer_settings

    # -- replay --------------------------------------------------------------------------------------------------

    def replay(self, record: StoredRecord, now_ms: int, producer_id: int = -1) -> None:
        """Apply a record of the log; offsets of a transaction wait for its marker."""
        match record:
            case OffsetRecord(group_id, place, None):
                self.offsets.delete(group_id, place)
            case OffsetRecord(group_id, place, CommittedOffset() as committed):
                self.simple_group(group_id, now_ms)
                if producer_id >= 0:
                    self.offsets.put_pending(producer_id, group_id, place, committed)
                else:
                    self.offsets.put(group_id, place, committed)
            case GroupRecord(group_id, None):
                if isinstance(self.groups.get(group_id), ClassicGroup):
                    del self.groups[group_id]
            case GroupRecord(group_id, snapshot) if snapshot is not None:
                group = self.groups[group_id] = ClassicGroup(Membership(group_id, self.settings, now_ms))
                group.membership.restore(snapshot, now_ms)
            case OpaqueRecord():
                self._replay_opaque(record)
            case _:
                self._replay_consumer(record)  # type: ignore[arg-type] # all others are handled above

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        group = self.groups.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            # A tombstone of its own removes a classic group, before or after this record.
            group = self.consumer_group(record.group_id)
        group.replay(record)
        if not group.data.is_gone:
            self.groups[record.group_id] = group
        elif self.groups.get(record.group_id) is group:
            del self.groups[record.group_id]

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return a new consumer group, which is not in the shard yet."""
        return ConsumerGroup(group_id, self.catalog, self.consumer_settings)

    def _replay_opaque(self, record: OpaqueRecord) -> None:
        group = self.groups.get(record.group_id)
        if not isinstance(group, OpaqueGroup) or group.group_type is not record.group_type:
            if record.deleted:
                return
            group = self.groups[record.group_id] = OpaqueGroup(record.group_id, record.group_type)
        group.replay(record.key, record.name, deleted=record.deleted)
        if not group.keys:
            del self.groups[record.group_id]

    def simple_group(self, group_id: str, now_ms: int) -> AnyGroup:
        """Return a group; the first offset creates a group that only commits."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(Membership(group_id, self.settings, now_ms))
        return group

    # -- commits -------------------------------------------------------------------------------------------------

    def begin_commit(self, group_id: str) -> None:
        """Begin a commit of a group: until `end_commit` no offset of the group expires."""
        self._committing[group_id] += 1

    def end_commit(self, group_id: str) -> None:
        """End a commit, stored or failed."""
        self._committing[group_id] -= 1
        if not self._committing[group_id]:
            del self._committing[group_id]

    # -- removal -------------------------------------------------------------------------------------------------

    def tombstones(self, group_id: str) -> list[Pair]:
        """Return the records that remove a group with its offsets."""
        group = self.groups.get(group_id)
        pairs: list[Pair] = [(offset_key(group_id, place), None) for place in self.offsets.places_of_group(group_id)]
        if isinstance(group, OpaqueGroup):
            pairs += [(key, None) for key in reversed(group.keys)]
        elif isinstance(group, ConsumerGroup):
            pairs += [encode_consumer_record(record) for record in group.tombstones()]
        elif group is not None:
            pairs.append((group_key(group_id), None))
        return pairs

    def forget(self, group_id: str) -> None:
        """Remove a group with its offsets."""
        for place in self.offsets.places_of_group(group_id):
            self.offsets.delete(group_id, place)
        self.groups.pop(group_id, None)

    def forget_offsets(self, places: Iterable[tuple[str, Place]]) -> None:
        """Remove single offsets."""
        for group_id, place in places:
            self.offsets.delete(group_id, place)

    # -- expiry --------------------------------------------------------------------------------------------------

    def expired(self, group_id: str, now_ms: int, retention_ms: int) -> tuple[list[Place], bool]:
        """Return the expired offsets of a group, and whether the group expires with them."""
        group = self.groups[group_id]
        if isinstance(group, OpaqueGroup) or group_id in self._committing:
            return [], False
        base = _consumer_age_base(group) if isinstance(group, ConsumerGroup) else _age_base(group.membership)
        if base is None:
            return [], False
        places = self.offsets.expired(group_id, base, now_ms, retention_ms)
        all_gone = len(places) == len(self.offsets.of_group(group_id)) and not self.offsets.has_pending(group_id)
        is_vacant = group.is_empty and not (isinstance(group, ClassicGroup) and group.membership.pending_members)
        return places, all_gone and is_vacant


HostedShard: TypeAlias = shards.HostedShard[GroupShard]


def _age_base(group: Membership) -> Callable[[str, CommittedOffset], int | None] | None:
    """Return the start of the retention of a group's offsets by topic; None if they do not expire.

    As Kafka: without members since the group became empty; with consumers for topics that none of them subscribes.
    """
    if group.protocol_type is None:
        return lambda _topic, committed: committed.commit_timestamp_ms
    if group.is_empty:
        since_ms = group.state_timestamp_ms
        return lambda _topic, committed: since_ms if since_ms >= 0 else committed.commit_timestamp_ms
    if group.state is GroupState.STABLE and group.uses_consumer_protocol and group.subscribed is not None:
        subscribed = group.subscribed
        return lambda topic, committed: None if topic in subscribed else committed.commit_timestamp_ms
    return None


def _consumer_age_base(group: ConsumerGroup) -> Callable[[str, CommittedOffset], int | None]:
    """Return the same for a consumer group: the time of the commit, for topics without subscribers."""
    return lambda topic, committed: None if group.is_subscribed_to(topic) else committed.commit_timestamp_ms
