"""Rounds: how much of what there is to read goes into one commit, and how it is spread over tasks.

Pure. A round takes from every partition what comes next, so that the offsets after it are one number per partition.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crabka.spark.plan.ranges import BrokerRange, PlannedRange, ReadPlan, Split, TierRange

# What a record at a broker is taken to weigh: the plan knows offsets only.
_BROKER_RECORD_BYTES = 512
_BROKER_RANGE_OFFSETS = 1_000_000


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """How large a round is and into how many tasks it goes."""

    round_bytes: int
    task_bytes: int
    min_tasks: int


@dataclass(frozen=True, slots=True)
class Round:
    """What is read next, and the offsets around it."""

    splits: tuple[Split, ...]
    before: Mapping[int, int]
    after: Mapping[int, int]
    size_bytes: int
    # What is left of the plan after this round.
    left_bytes: int
    is_last: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return dict(self.before) == dict(self.after)


def next_round(plan: ReadPlan, topic: str, before: Mapping[int, int], limits: RoundLimits) -> Round:
    """Return the next round of a plan for a table with these offsets.

    They are those that the plan starts at, or those that another round of the same plan ended at.
    """
    queues = _queues(plan, topic, before)
    taken: list[PlannedRange] = []
    after = {partition: start for (name, partition), (start, _) in plan.ranges.items() if name == topic}
    size_bytes = 0
    while queues and (not taken or size_bytes < limits.round_bytes):
        for partition in list(queues):
            each = queues[partition].popleft()
            taken.append(each)
            size_bytes += weight(each)
            after[partition] = each.end_offset
            if not queues[partition]:
                del queues[partition]
    for (name, partition), (_, end) in plan.ranges.items():
        if name == topic and partition not in queues:
            after[partition] = max(after[partition], end)
    # A partition that the plan leaves out keeps what the table has. One that is not known yet, since the tier has
    # nothing of it, has nothing in the table either.
    after = dict(before) | {partition: max(offset, before.get(partition, 0)) for partition, offset in after.items()}
    after = dict.fromkeys(range(max(after, default=-1)), 0) | after
    return Round(
        splits=_splits(taken, size_bytes, limits),
        before=dict(before),
        after=after,
        size_bytes=size_bytes,
        left_bytes=sum(weight(each) for queue in queues.values() for each in queue),
        is_last=not queues,
    )


def weight(each: PlannedRange) -> int:
    """Return about how many bytes a range has."""
    if isinstance(each, TierRange):
        return each.size_bytes
    return (each.end_offset - each.start_offset) * _BROKER_RECORD_BYTES


def _queues(plan: ReadPlan, topic: str, before: Mapping[int, int]) -> dict[int, deque[PlannedRange]]:
    """Return what is left to read, by partition. Rounds take whole pieces, so that none is left in part."""
    ranges: dict[int, list[PlannedRange]] = defaultdict(list)
    for split in plan.splits:
        for each in split.ranges:
            if each.topic == topic:
                done = before.get(each.partition, 0)
                left = [piece for piece in _cut(each) if piece.end_offset > done]
                if left:
                    ranges[each.partition] += left
    return {
        partition: deque(sorted(found, key=lambda each: each.start_offset))
        for partition, found in sorted(ranges.items())
    }


def _cut(each: PlannedRange) -> list[PlannedRange]:
    """Return a range of brokers in pieces that tasks can share."""
    if not isinstance(each, BrokerRange):
        return [each]
    return [
        replace(each, start_offset=start, end_offset=min(start + _BROKER_RANGE_OFFSETS, each.end_offset))
        for start in range(each.start_offset, each.end_offset, _BROKER_RANGE_OFFSETS)
    ]


def _splits(taken: Sequence[PlannedRange], size_bytes: int, limits: RoundLimits) -> tuple[Split, ...]:
    """Return ranges in splits of neighbours, so that files hold few partitions and offsets in order."""
    ordered = sorted(taken, key=lambda each: (each.partition, each.start_offset))
    count = max(1, min(len(ordered), max(limits.min_tasks, -(-size_bytes // limits.task_bytes))))
    splits: list[Split] = []
    current: list[PlannedRange] = []
    passed = 0
    for each in ordered:
        current.append(each)
        passed += weight(each)
        if passed * count >= size_bytes * (len(splits) + 1):
            splits.append(Split(tuple(current)))
            current = []
    if current:
        splits.append(Split(tuple(current)))
    return tuple(splits)
