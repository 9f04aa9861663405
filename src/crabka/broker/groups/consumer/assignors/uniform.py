"""The assignor `uniform`: members get equal numbers of partitions, and keep their partitions where possible.

If all members subscribe to the same topics, every member has a quota: partitions above it are removed, and free ones
fill the other members up. Otherwise free partitions go to the subscriber with the fewest, topics with few subscribers
first. Then partitions move from members to others with at least two fewer, until no move is possible.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator

    from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, Partitions

    Shares = dict[str, dict[uuid.UUID, set[int]]]


def assign(spec: AssignmentSpec) -> dict[str, Partitions]:
    """Return the target assignment."""
    if not spec.members:
        return {}
    shares = _homogeneous(spec) if spec.is_homogeneous else _Heterogeneous(spec).build()
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in share.items() if partitions}
        for member_id, share in shares.items()
    }


def _homogeneous(spec: AssignmentSpec) -> Shares:
    topics = next(iter(spec.members.values())).topics
    counts = {topic_id: spec.partition_counts[topic_id] for topic_id in topics}
    free = list(_free(spec, counts))
    quota, extra = divmod(sum(counts.values()), len(spec.members))
    shares: Shares = {}
    unfilled: list[tuple[str, int]] = []
    for position, (member_id, member) in enumerate(spec.members.items()):
        room = quota + (position < extra)
        share = shares[member_id] = {}
        for topic_id, partitions in member.assignment.items():
            if topic_id not in counts:
                continue
            if len(partitions) <= room:
                share[topic_id] = set(partitions)
                room -= len(partitions)
                continue
            ordered = sorted(partitions)
            share[topic_id] = set(ordered[:room])
            free += [(topic_id, partition) for partition in ordered[room:]]
            room = 0
        if room:
            unfilled.append((member_id, room))
    start = 0
    for member_id, room in unfilled:
        share = shares[member_id]
        for topic_id, partition in free[start : start + room]:
            share.setdefault(topic_id, set()).add(partition)
        start += room
    return shares


def _free(spec: AssignmentSpec, counts: dict[uuid.UUID, int]) -> Iterator[tuple[uuid.UUID, int]]:
    """Yield the partitions that no member has."""
    taken: dict[uuid.UUID, set[int]] = {topic_id: set() for topic_id in counts}
    for member in spec.members.values():
        for topic_id, partitions in member.assignment.items():
            if topic_id in taken:
                taken[topic_id].update(partitions)
    for topic_id, count in counts.items():
        for partition in range(count):
            if partition not in taken[topic_id]:
                yield topic_id, partition


class _Heterogeneous:
    """Members with different subscriptions."""

    def __init__(self, spec: AssignmentSpec) -> None:
        self._spec = spec
        self._subscribers: dict[uuid.UUID, list[str]] = {}
        for member_id, member in spec.members.items():
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
        self._owners: dict[uuid.UUID, dict[int, str]] = {topic_id: {} for topic_id in self._subscribers}
        self._loads = dict.fromkeys(spec.members, 0)

    def build(self) -> Shares:
        self._keep()
        # Topics with few subscribers come first: members with more topics then fill the gaps.
        topics = sorted(self._subscribers, key=lambda each: len(self._subscribers[each]))
        self._assign_free(topics)
        self._balance(topics)
        shares: Shares = {member_id: {} for member_id in self._spec.members}
        for topic_id, owners in self._owners.items():
            for partition, member_id in owners.items():
                shares[member_id].setdefault(topic_id, set()).add(partition)
        return shares

    def _keep(self) -> None:
        for member_id, member in self._spec.members.items():
            wanted = set(member.topics)
            for topic_id, partitions in member.assignment.items():
                if topic_id in wanted:
                    owners, count = self._owners[topic_id], self._spec.partition_counts[topic_id]
                    for partition in partitions:
                        if partition < count and partition not in owners:
                            owners[partition] = member_id
                            self._loads[member_id] += 1

    def _assign_free(self, topics: Iterable[uuid.UUID]) -> None:
        for topic_id in topics:
            owners = self._owners[topic_id]
            free = [each for each in range(self._spec.partition_counts[topic_id]) if each not in owners]
            if not free:
                continue
            heap = [(self._loads[each], position, each) for position, each in enumerate(self._subscribers[topic_id])]
            heapq.heapify(heap)
            for partition in free:
                load, position, member_id = heap[0]
                owners[partition] = member_id
                self._loads[member_id] = load + 1
                heapq.heapreplace(heap, (load + 1, position, member_id))

    def _balance(self, topics: list[uuid.UUID]) -> None:
        # Every move reduces a difference between two members, so this ends.
        moved = True
        while moved:
            moved = False
            for topic_id in topics:
                moved |= self._balance_topic(topic_id)

    def _balance_topic(self, topic_id: uuid.UUID) -> bool:
        loads = self._loads
        owned: dict[str, list[int]] = {member_id: [] for member_id in self._subscribers[topic_id]}
        for partition, member_id in sorted(self._owners[topic_id].items()):
            owned[member_id].append(partition)
        moved = False
        while True:
            richest = max((each for each in owned if owned[each]), key=lambda each: loads[each], default=None)
            poorest = min(owned, key=lambda each: loads[each])
            if richest is None or loads[richest] - loads[poorest] < 2:
                return moved
            partition = owned[richest].pop()
            owned[poorest].append(partition)
            self._owners[topic_id][partition] = poorest
            loads[richest] -= 1
            loads[poorest] += 1
            moved = True
