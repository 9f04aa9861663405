"""The smallest PartitionChangeRecord that brings a partition to a target state (Kafka's PartitionChangeBuilder).

It decides which replica leads, which are in sync or only eligible (KIP-966), when a reassignment is complete (KIP-455)
and when the leader epoch rises. It does not know requests: callers give the target and the brokers that may lead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.metadata.features import DIRECTORIES_LEVEL, NO_EPOCH_ON_SHRINK_LEVEL
from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.topics import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crabka.ids import DirectoryId, TopicId
    from crabka.metadata.topics import PartitionImage

RECOVERED, RECOVERING = 0, 1


class Election(Enum):
    """How far a search for a leader may go."""

    # The first replica if it is in sync, even if another one leads well.
    PREFERRED = "preferred"
    # Any replica that has every acknowledged record; the current leader stays if it can.
    ONLINE = "online"
    # Like ONLINE, but a replica that may lack records is better than none.
    UNCLEAN = "unclean"


class PartitionPlace(NamedTuple):
    """The partition of a record."""

    topic_id: TopicId
    partition_id: int


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """The rules for one partition, independent of the target."""

    can_lead: Callable[[int], bool]
    default_directory: Callable[[int], DirectoryId]
    metadata_version: int
    min_isr: int
    elr_enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """The target state of a partition; None leaves a part unchanged."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    leader_recovery_state: int | None = None
    # Log dirs of single replicas; the others keep theirs.
    directories: Mapping[int, DirectoryId] = field(default_factory=dict)
    # A replica that may have lost acknowledged records: it must not stay eligible.
    unclean_replica: int | None = None
    election: Election = Election.ONLINE


def build_partition_change(
    place: PartitionPlace, partition: PartitionImage, target: PartitionTarget, rules: ChangeRules
) -> PartitionChangeRecord | None:
    """Return the record that reaches a target, or None if nothing changes."""
    draft = _Draft(partition, target, rules)
    draft.complete_reassignment()
    draft.choose_eligible()
    draft.elect(target.election)
    changes = draft.changes()
    return (
        PartitionChangeRecord(partition_id=place.partition_id, topic_id=place.topic_id, **changes) if changes else None
    )


def completed_reassignment(
    replicas: Sequence[int], isr: Sequence[int], *, adding: Sequence[int], removing: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return replicas and ISR after a reassignment whose new replicas are all in sync; None if it is not done.

    An old replica that is not in sync does not delay it, unless the replication factor falls.
    """
    if not adding and not removing:
        return None
    final_isr = tuple(replica for replica in isr if replica not in removing)
    final_replicas = tuple(replica for replica in replicas if replica not in removing)
    if not final_isr or not final_replicas:
        return None
    awaited = set(adding)
    if len(adding) < len(removing):
        # Fewer replicas than before: all remaining ones must be in sync.
        awaited.update(final_replicas)
    return (final_replicas, final_isr) if awaited.issubset(final_isr) else None


class _Draft:
    """A partition on its way to the target state; the steps must run in the order of `build_partition_change`."""

    def __init__(self, partition: PartitionImage, target: PartitionTarget, rules: ChangeRules) -> None:
        self._old = partition
        self._target = target
        self._rules = rules
        self._isr = _chosen(target.isr, partition.isr)
        self._replicas = _chosen(target.replicas, partition.replicas)
        self._removing = _chosen(target.removing, partition.removing)
        self._adding = _chosen(target.adding, partition.adding)
        self._elr = partition.elr
        self._leader = partition.leader
        self._unclean = False

    def complete_reassignment(self) -> None:
        """Drop the removed replicas once every remaining replica is in sync."""
        completed = completed_reassignment(self._replicas, self._isr, adding=self._adding, removing=self._removing)
        if completed is not None:
            self._replicas, self._isr = completed
            self._removing = self._adding = ()

    def choose_eligible(self) -> None:
        """Keep replicas that leave the ISR below min ISR eligible: nothing is acknowledged meanwhile (KIP-966)."""
        if not self._rules.elr_enabled or len(self._isr) >= self._rules.min_isr:
            self._elr = ()
            return
        unclean = self._target.unclean_replica
        candidates = {*self._elr, *self._old.isr} - set(self._isr)
        # A finished reassignment drops replicas; Kafka would keep them here, where they could never be elected.
        self._elr = tuple(sorted(each for each in candidates if each != unclean and each in self._replicas))

    def elect(self, election: Election) -> None:
        """Find the leader."""
        self._leader, self._unclean = self._elected(election)
        if self._leader == NO_LEADER or self._leader in self._isr:
            return
        self._isr = (self._leader,)
        # Unclean: all other replicas must follow the new leader from now on. This can lose records.
        self._elr = () if self._unclean else tuple(replica for replica in self._elr if replica != self._leader)

    def changes(self) -> dict[str, Any]:
        """Return the fields of the record that must be set."""
        old = self._old
        changes: dict[str, Any] = {}
        isr = self._new_isr()
        if isr != old.isr:
            changes["isr"] = isr
        if self._elr != old.elr:
            changes["eligible_leader_replicas"] = self._elr
        if self._leader != old.leader or self._needs_new_epoch(isr):
            changes["leader"] = self._leader
        changes |= self._last_known_leader(changes)
        changes |= self._assignment_changes()
        state = self._recovery_state()
        if state != old.leader_recovery_state:
            changes["leader_recovery_state"] = state
        return changes

    def _elected(self, election: Election) -> tuple[int, bool]:
        """Return the leader and whether its election was unclean."""
        if election is Election.PREFERRED and self._is_valid_leader(self._replicas[0]):
            return self._replicas[0], False
        if self._is_valid_leader(self._old.leader):
            return self._old.leader, False
        for replica in self._replicas:
            if self._is_valid_leader(replica):
                return replica, False
        if self._can_elect_last_known_leader():
            return self._old.last_known_elr[0], True
        if election is Election.UNCLEAN:
            for replica in self._replicas:
                if self._rules.can_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_valid_leader(self, replica: int) -> bool:
        has_everything = replica in self._isr or (not self._isr and replica in self._elr)
        return has_everything and self._rules.can_lead(replica)

    def _can_elect_last_known_leader(self) -> bool:
        last_known = self._old.last_known_elr
        return (
            self._rules.elr_enabled
            and not self._isr
            and not self._elr
            and len(last_known) == 1
            and last_known[0] in self._replicas
            and self._rules.can_lead(last_known[0])
        )

    def _new_isr(self) -> tuple[int, ...]:
        # Without eligible replicas an empty ISR would lose the replica that has everything, so the last one stays.
        return self._isr if self._isr or self._rules.elr_enabled else self._old.isr

    def _needs_new_epoch(self, isr: tuple[int, ...]) -> bool:
        """A dropped replica must be fenced off by a new leader epoch; before 3.6 a shrunk ISR needed one, too."""
        if not set(self._old.replicas).issubset(self._replicas):
            return True
        shrinks = not set(self._old.isr).issubset(isr)
        return shrinks and self._rules.metadata_version < NO_EPOCH_ON_SHRINK_LEVEL

    def _last_known_leader(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Record the last leader while there is none; with eligible replicas off the field stays unchanged."""
        if not self._rules.elr_enabled or "leader" not in changes:
            return {}
        last_known = self._old.last_known_elr
        if self._leader == NO_LEADER:
            # A reassignment may bump the epoch of a partition that has had no leader for long.
            forgets = not last_known and self._old.leader != NO_LEADER
            return {"last_known_elr": (self._old.leader,)} if forgets else {}
        return {"last_known_elr": ()} if last_known else {}

    def _assignment_changes(self) -> dict[str, Any]:
        old = self._old
        pairs: dict[str, tuple[Any, Any]] = {
            "replicas": (self._replicas, old.replicas),
            "removing_replicas": (self._removing, old.removing),
            "adding_replicas": (self._adding, old.adding),
        }
        if self._rules.metadata_version >= DIRECTORIES_LEVEL:
            pairs["directories"] = (tuple(map(self._directory, self._replicas)), old.directories)
        return {name: new for name, (new, before) in pairs.items() if new != before}

    def _directory(self, replica: int) -> DirectoryId:
        requested = self._target.directories.get(replica)
        if requested is not None:
            return requested
        if replica in self._old.replicas:
            return self._old.directory_of(replica)
        return self._rules.default_directory(replica)

    def _recovery_state(self) -> int:
        if self._unclean:
            return RECOVERING
        return (
            self._old.leader_recovery_state
            if self._target.leader_recovery_state is None
            else (self._target.leader_recovery_state)
        )


def _chosen(wanted: Sequence[int] | None, present: tuple[int, ...]) -> tuple[int, ...]:
    return present if wanted is None else tuple(wanted)
