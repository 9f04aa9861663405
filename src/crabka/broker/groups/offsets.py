"""Committed offsets of all groups of one partition of `__consumer_offsets`.

Offsets of an open transaction are pending: they count only when its marker says so (KIP-447). Which commit of a
partition is the last is decided by the order of the records, not by that of the markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from crabka.ids import ZERO_UUID

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Iterator, Mapping

NO_EXPIRY = -1

Place: TypeAlias = tuple[str, int]


class CommittedOffset(NamedTuple):
    """What was committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # Given by clients before OffsetCommit v5; -1 leaves it to the node's retention.
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: uuid.UUID = ZERO_UUID


class PendingOffset(NamedTuple):
    """A commit of an open transaction. Of two commits of a partition the one with the higher order is later."""

    order: int
    # None if a later commit counts already: whatever becomes of the transaction, this one never will.
    committed: CommittedOffset | None


class OffsetStore:
    """Offsets by group and partition. Changes come in the order of the log."""

    __slots__ = ("_by_group", "_order", "_pending", "_producers", "_topics")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, Place], PendingOffset]] = {}
        # Which producers have a commit pending for a partition of a group.
        self._producers: dict[str, dict[Place, set[int]]] = {}
        self._order = 0
        # One string per topic name, however many groups have offsets of it.
        self._topics: dict[str, str] = {}

    def put(self, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Remember a commit. Of those that are pending none comes after it, but they stay pending."""
        offsets = self._by_group.get(group_id)
        if offsets is None:
            offsets = self._by_group[group_id] = {}
        offsets[self._own(place)] = committed
        if self._pending:
            self._supersede(group_id, place, self._order)

    def put_pending(self, producer_id: int, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Remember a commit of a transaction that is open."""
        self._order += 1
        self._pending.setdefault(producer_id, {})[group_id, place] = PendingOffset(self._order, committed)
        self._producers.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """End the transaction of a producer: its offsets count now, unless a later commit does, or never."""
        for (group_id, place), (order, committed) in self._pending.pop(producer_id, {}).items():
            self._forget_producer(producer_id, group_id, place)
            if commit and committed is not None:
                self._by_group.setdefault(group_id, {})[self._own(place)] = committed
                self._supersede(group_id, place, order)

    def delete(self, group_id: str, place: Place) -> None:
        """Forget an offset, also one that is pending; an unknown one is fine."""
        offsets = self._by_group.get(group_id)
        if offsets is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._by_group[group_id]
        for producer_id in list(self._producers.get(group_id, {}).get(place, ())):
            del self._pending[producer_id][group_id, place]
            self._forget_producer(producer_id, group_id, place)

    def get(self, group_id: str, place: Place) -> CommittedOffset | None:
        """Return what was committed last."""
        offsets = self._by_group.get(group_id)
        return None if offsets is None else offsets.get(place)

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return all offsets of a group."""
        return self._by_group.get(group_id, {})

    def places_of_group(self, group_id: str) -> list[Place]:
        """Return the partitions that a group has committed for, also in open transactions."""
        return list({**dict.fromkeys(self.of_group(group_id)), **dict.fromkeys(self._producers.get(group_id, ()))})

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Return whether an open transaction may change the offset."""
        return place in self._producers.get(group_id, ())

    def has_pending(self, group_id: str) -> bool:
        """Return whether an open transaction may change any offset of a group."""
        return group_id in self._producers

    def pending_of_group(self, group_id: str) -> list[tuple[int, Place, PendingOffset]]:
        """Return what is pending for a group: producer, partition and commit."""
        return [
            (producer_id, place, self._pending[producer_id][group_id, place])
            for place, producers in self._producers.get(group_id, {}).items()
            for producer_id in producers
        ]

    def restore_pending(self, group_id: str, pending: Iterable[tuple[int, Place, PendingOffset]]) -> None:
        """Take back what `pending_of_group` gave and `delete` took."""
        for producer_id, place, commit in pending:
            self._pending.setdefault(producer_id, {}).setdefault((group_id, place), commit)
            self._producers.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def _own(self, place: Place) -> Place:
        topic, partition = place
        return self._topics.setdefault(topic, topic), partition

    def _supersede(self, group_id: str, place: Place, order: int) -> None:
        """Let no pending commit up to an order count any more."""
        for producer_id in self._producers.get(group_id, {}).get(place, ()):
            pending = self._pending[producer_id]
            if pending[group_id, place].order <= order:
                pending[group_id, place] = PendingOffset(order, None)

    def _forget_producer(self, producer_id: int, group_id: str, place: Place) -> None:
        places = self._producers[group_id]
        places[place].discard(producer_id)
        if not places[place]:
            del places[place]
            if not places:
                del self._producers[group_id]

    def of_topics(self, topics: set[str]) -> Iterator[tuple[str, Place]]:
        """Yield group and partition of every offset of these topics, also of pending ones."""
        for group_id in {**self._by_group, **self._producers}:
            for place in self.places_of_group(group_id):
                if place[0] in topics:
                    yield group_id, place

    def expired(
        self, group_id: str, base_ms: Callable[[str, CommittedOffset], int | None], now_ms: int, retention_ms: int
    ) -> list[Place]:
        """Return the offsets of a group whose time is over.

        `base_ms` says from when on an offset of a topic ages; None keeps it.
        """
        found = []
        for place, committed in self.of_group(group_id).items():
            base = base_ms(place[0], committed)
            if base is None or self.is_pending(group_id, place):
                continue
            explicit = committed.expire_timestamp_ms
            if now_ms >= explicit if explicit != NO_EXPIRY else now_ms - base >= retention_ms:
                found.append(place)
        return found
