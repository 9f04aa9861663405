"""Placement of new replicas: striped over racks and brokers, unfenced brokers first (Kafka's StripedReplicaPlacer).

Racks take turns, and the brokers in a rack take turns; each partition starts one further than the one before. Two
replicas of a partition never share a broker, and share a rack only if there are more replicas than racks. A fenced
broker may hold a replica but is never the first one, which leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.decisions.control_view import ControlView
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Sequence

    from crabka.ids import DirectoryId
    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.image import MetadataImage


def place_partitions(
    image: MetadataImage, *, partition_count: int, replication_factor: int, rng: random.Random
) -> list[list[int]]:
    """Return the replicas of each new partition; the first one is the preferred leader.

    Raises OperationError (INVALID_REPLICATION_FACTOR) if there are too few brokers.
    """
    usable = [broker for broker in image.cluster.brokers.values() if is_usable(broker)]
    reason = None
    if replication_factor > len(usable):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    elif all(broker.fenced for broker in usable):
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
    if reason is not None:
        raise OperationError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replication_factor} time(s): {reason}",
        )
    racks = _Racks(usable, rng)
    return [racks.place(replication_factor) for _ in range(partition_count)]


def is_usable(broker: BrokerRegistration) -> bool:
    """Return whether a broker may get new replicas: it is not stopping and not all of its dirs are cordoned."""
    if broker.in_controlled_shutdown and not broker.fenced:
        return False
    return not broker.directories or not set(broker.cordoned_directories).issuperset(broker.directories)


def initial_directories(image: MetadataImage, replicas: Sequence[int]) -> tuple[DirectoryId, ...]:
    """Return the log dir of each new replica."""
    view = ControlView(image)
    return tuple(view.default_directory(node_id) for node_id in replicas)


class _Ring:
    """Brokers in turn, none twice for one partition.

    Leaders and followers take turns apart from each other. With one turn for both, as Kafka has it, a number of racks
    that divides the number of brokers would give all leaders to a few of them.
    """

    def __init__(self, brokers: list[int], rng: random.Random) -> None:
        self._brokers = sorted(brokers)
        self._next_leader = self._next_follower = rng.randrange(len(brokers)) if brokers else 0

    def take_leader(self) -> int | None:
        """Return the next broker to lead, None without brokers."""
        if not self._brokers:
            return None
        self._next_leader += 1
        return self._brokers[(self._next_leader - 1) % len(self._brokers)]

    def take_follower(self, taken: Collection[int]) -> int | None:
        """Return the next broker to follow, None if all were taken for this partition."""
        count = len(self._brokers)
        for position in range(self._next_follower, self._next_follower + count):
            broker_id = self._brokers[position % count]
            if broker_id not in taken:
                self._next_follower = position + 1
                return broker_id
        return None

    def shuffle(self, rng: random.Random) -> None:
        """Put the brokers into another order."""
        rng.shuffle(self._brokers)


class _Rack:
    """The brokers of one rack; those without a rack share one."""

    def __init__(self, brokers: list[BrokerRegistration], rng: random.Random) -> None:
        self.fenced = _Ring([broker.broker_id for broker in brokers if broker.fenced], rng)
        self.living = _Ring([broker.broker_id for broker in brokers if not broker.fenced], rng)

    def take_follower(self, taken: Collection[int]) -> int | None:
        """Return the next broker that is not taken, fenced ones last."""
        broker_id = self.living.take_follower(taken)
        return self.fenced.take_follower(taken) if broker_id is None else broker_id


class _Racks:
    """All racks in turn, for the partitions of one request."""

    def __init__(self, brokers: list[BrokerRegistration], rng: random.Random) -> None:
        by_name: dict[str, list[BrokerRegistration]] = {}
        for broker in brokers:
            by_name.setdefault(broker.rack or "", []).append(broker)
        self._rng = rng
        self._racks = [_Rack(by_name[name], rng) for name in sorted(by_name)]
        self._living_count = sum(not broker.fenced for broker in brokers)
        self._start = rng.randrange(len(self._racks)) if len(self._racks) > 1 else 0
        self._placed = 0

    def place(self, replication_factor: int) -> list[int]:
        """Return the replicas of the next partition; there must be enough brokers and an unfenced one."""
        if self._placed and self._placed % self._living_count == 0:
            # Every unfenced broker had its turn. Another order avoids repeating the same pairs of replicas.
            self._shuffle()
        leader_rack, leader = self._take_leader()
        replicas = [leader]
        position = self._start
        skipped = False
        while len(replicas) < replication_factor:
            index = position % len(self._racks)
            position += 1
            if index == leader_rack and not skipped:
                # The rack of the leader had its first turn.
                skipped = True
                continue
            broker_id = self._racks[index].take_follower(replicas)
            if broker_id is not None:
                replicas.append(broker_id)
        self._placed += 1
        self._start += 1
        return replicas

    def _take_leader(self) -> tuple[int, int]:
        position = self._start
        while True:
            index = position % len(self._racks)
            broker_id = self._racks[index].living.take_leader()
            if broker_id is not None:
                return index, broker_id
            position += 1

    def _shuffle(self) -> None:
        self._rng.shuffle(self._racks)
        for rack in self._racks:
            rack.fenced.shuffle(self._rng)
            rack.living.shuffle(self._rng)
