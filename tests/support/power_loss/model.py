"""What clients know for sure, and so what a node must still know after it was killed or lost power.

Owns acknowledgements; it knows neither node nor disk. A change whose answer got lost leaves two possible states of
its topic until the node is asked.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from crabka.ids import TopicPartition

# Topics whose segments are too large to roll in a run.
NEVER_ROLLED = frozenset({"synced", "cached", "stamped"})
# flush.messages=1: what is acknowledged is on the disk.
SYNCED = {"flush.messages": "1"}


class TopicState(NamedTuple):
    """Metadata of a topic. The id of a topic whose creation was not answered is not known."""

    topic_id: uuid.UUID | None
    partitions: int
    configs: Mapping[str, str]

    def fits(self, actual: TopicState | None) -> bool:
        """Return whether the actual state may be this one."""
        if actual is None or self[1:] != actual[1:]:
            return False
        return self.topic_id in (None, actual.topic_id)


@dataclass
class PartitionModel:
    """What is known of the records of a partition."""

    # Offset -> value, as acknowledged to producers.
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    # The same for records that a reader saw or a check found. Page cache: a power cut may take them.
    seen: dict[int, bytes] = field(default_factory=dict)
    # Log start as acknowledged, and the largest that was ever asked for.
    start: int = 0
    asked_start: int = 0
    leader_epoch: int = -1

    def forget_from(self, end: int) -> None:
        """Let go of what a power cut took."""
        self.acknowledged = {offset: value for offset, value in self.acknowledged.items() if offset < end}
        self.seen = {offset: value for offset, value in self.seen.items() if offset < end}


class Model:
    """All that clients were promised."""

    def __init__(self) -> None:
        # Name -> the states that the topic may be in; one, unless a change is in flight. None: it does not exist.
        self.topics: dict[str, list[TopicState | None]] = {}
        self.partitions: defaultdict[tuple[uuid.UUID, int], PartitionModel] = defaultdict(PartitionModel)
        self.sent: set[bytes] = set()
        # Acknowledged value -> the topic that has it.
        self.homes: dict[bytes, uuid.UUID] = {}
        self.deleted_ids: set[uuid.UUID] = set()
        # Kafka's snapshots hold one batch per producer, those of a clean stop as those of a roll. A client that had
        # several without an answer sends them all again, and what lies before the snapshot, except the last, is no
        # longer known as a duplicate, here as in Kafka.
        self.may_repeat: set[bytes] = set()
        self.may_repeat_behind_rolls: set[bytes] = set()
        # Fsynced ends as the node knew them when it died.
        self.synced_ends: dict[TopicPartition, int] = {}

    def state(self, name: str) -> TopicState | None:
        """Return the certain state of a topic."""
        (state,) = self.topics.get(name, [None])
        return state

    def existing(self) -> dict[str, TopicState]:
        """Return the topics that certainly exist, with their ids."""
        certain = {name: states[0] for name, states in self.topics.items() if len(states) == 1}
        return {name: state for name, state in certain.items() if state is not None}

    def settle(self, name: str, state: TopicState | None) -> None:
        """Note the state of a topic as certain."""
        for before in self.topics.get(name, ()):
            if before is not None and before.topic_id is not None and (not state or state.topic_id != before.topic_id):
                self.deleted_ids.add(before.topic_id)
        self.topics[name] = [state]

    def note_end(self, *, clean: bool) -> None:
        """Note that the node ends: what has no answer may be written once more, after a crash only behind a roll."""
        unanswered = self.sent - self.homes.keys()
        self.may_repeat_behind_rolls |= unanswered
        if clean:
            self.may_repeat |= unanswered

    def acknowledge(self, topic_id: uuid.UUID, partition: int, offset: int, value: bytes) -> None:
        """Note a record as acknowledged; offset -1 means only that it is in the log."""
        self.homes[value] = topic_id
        if offset >= 0:
            self.partitions[topic_id, partition].acknowledged[offset] = value
