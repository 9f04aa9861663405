"""Plans which replicas of a broker move to which of its log dirs, so that they hold about the same.

A function of the answers of DescribeLogDirs, without effects. Each move takes a replica from the fullest dir to the
emptiest one and brings the two closer together. Failed dirs are left out, cordoned ones receive nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.clients.admin.admin_types import LogDirDescription
from crabka.ids import TopicPartition

# Share of the size of a target that stays free.
RESERVED_SHARE: Final = 0.05
# Dirs are balanced if they differ by less than this share of their average.
DEFAULT_TOLERANCE: Final = 0.1


class PlannedMove(NamedTuple):
    """A replica that is to move."""

    partition: TopicPartition
    source: str
    target: str
    size_bytes: int


class _DirLoad:
    """The content of a dir after the moves that are planned or in progress."""

    def __init__(self, description: LogDirDescription, moving: dict[TopicPartition, int]) -> None:
        self.path = description.path
        self.is_cordoned = description.is_cordoned
        self.free_bytes: float = float("inf")
        if description.total_bytes >= 0 <= description.usable_bytes:
            self.free_bytes = description.usable_bytes - description.total_bytes * RESERVED_SHARE
        # Replicas that can move away.
        self.movable: dict[TopicPartition, int] = {}
        self.used_bytes = 0
        for key, replica in description.replicas.items():
            partition = TopicPartition(*key)
            if replica.is_future:
                full_size = max(moving.get(partition, 0), replica.size_bytes)
                self.used_bytes += full_size
                self.free_bytes -= full_size - replica.size_bytes
            elif partition not in moving:
                self.movable[partition] = replica.size_bytes
                self.used_bytes += replica.size_bytes

    def give(self, partition: TopicPartition, target: _DirLoad) -> PlannedMove:
        """Move a replica to another dir. It does not return; its space here is free after the move."""
        size_bytes = self.movable.pop(partition)
        self.used_bytes -= size_bytes
        target.used_bytes += size_bytes
        target.free_bytes -= size_bytes
        return PlannedMove(partition, self.path, target.path, size_bytes)


def plan_balance(
    dirs: Sequence[LogDirDescription], *, tolerance: float = DEFAULT_TOLERANCE, drain: bool = False
) -> list[PlannedMove]:
    """Return the moves that balance the log dirs of one broker; `drain` first empties cordoned ones."""
    loads = _loads(dirs)
    targets = [load for load in loads if not load.is_cordoned]
    if not targets:
        return []
    moves = list(_drain([load for load in loads if load.is_cordoned], targets)) if drain else []
    return [*moves, *_even_out(targets, tolerance)]


def _loads(dirs: Sequence[LogDirDescription]) -> list[_DirLoad]:
    online = [each for each in dirs if each.is_online]
    futures = {key for each in online for key, replica in each.replicas.items() if replica.is_future}
    moving = {
        TopicPartition(*key): replica.size_bytes
        for each in online
        for key, replica in each.replicas.items()
        if key in futures and not replica.is_future
    }
    return [_DirLoad(each, moving) for each in online]


def _drain(sources: Sequence[_DirLoad], targets: Sequence[_DirLoad]) -> Iterator[PlannedMove]:
    for source in sources:
        for partition, size_bytes in sorted(source.movable.items(), key=lambda each: (-each[1], each[0])):
            fitting = [load for load in targets if load.free_bytes >= size_bytes]
            if fitting:
                yield source.give(partition, min(fitting, key=lambda load: (load.used_bytes, load.path)))


def _even_out(loads: Sequence[_DirLoad], tolerance: float) -> Iterator[PlannedMove]:
    enough = sum(load.used_bytes for load in loads) / len(loads) * tolerance
    while True:
        by_use = sorted(loads, key=lambda load: (load.used_bytes, load.path))
        move = _best_move(by_use, enough)
        if move is None:
            return
        source, partition, target = move
        yield source.give(partition, target)


def _best_move(by_use: Sequence[_DirLoad], enough: float) -> tuple[_DirLoad, TopicPartition, _DirLoad] | None:
    """Return a move from the fullest dir that has one, to the emptiest that can take it."""
    for source in reversed(by_use):
        for target in by_use:
            gap = source.used_bytes - target.used_bytes
            if gap <= enough:
                break
            partition = _best_replica(source, target, gap)
            if partition is not None:
                return source, partition, target
    return None


def _best_replica(source: _DirLoad, target: _DirLoad, gap: int) -> TopicPartition | None:
    """Return the replica whose move makes two dirs most equal, None if each makes them less equal."""
    candidates = [
        (abs(gap - 2 * size_bytes), partition)
        for partition, size_bytes in source.movable.items()
        if 0 < size_bytes < gap and size_bytes <= target.free_bytes
    ]
    return min(candidates)[1] if candidates else None
