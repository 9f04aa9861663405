"""Committed offsets of all groups of one partition of `__consumer_offsets`.

Offsets of an open transaction are pending: they count only when its marker says so (KIP-447).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from crabka.ids import ZERO_UUID

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator, Mapping

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


class OffsetStore:
    """Offsets by group and partition."""

    __slots__ = ("_by_group", "_pending", "_topics")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        # One string per topic name, however many groups have offsets of it.
        self._topics: dict[str, str] = {}

    def put(self, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Remember a commit; one that was pending before does not come after it."""
        offsets = self._by_group.get(group_id)
        if offsets is None:
            offsets = self._by_group[group_id] = {}
        topic, partition = place
        offsets[self._topics.setdefault(topic, topic), partition] = committed
        for groups in self._pending.values():
            groups.get(group_id, {}).pop(place, None)

    def put_pending(self, producer_id: int, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Remember a commit of a transaction that is open."""
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[place] = committed

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """End the transaction of a producer: its offsets count now, or never."""
        groups = self._pending.pop(producer_id, {})
        if commit:
            for group_id, offsets in groups.items():
                for place, committed in offsets.items():
                    self.put(group_id, place, committed)

    def delete(self, group_id: str, place: Place) -> None:
        """Forget an offset, also one that is pending; an unknown one is fine."""
        offsets = self._by_group.get(group_id)
        if offsets is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._by_group[group_id]
        for groups in self._pending.values():
            groups.get(group_id, {}).pop(place, None)

    def get(self, group_id: str, place: Place) -> CommittedOffset | None:
        """Return what was committed last."""
        offsets = self._by_group.get(group_id)
        return None if offsets is None else offsets.get(place)

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return all offsets of a group."""
        return self._by_group.get(group_id, {})

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Return whether an open transaction may change the offset."""
        return any(place in groups.get(group_id, ()) for groups in self._pending.values())

    def has_pending(self, group_id: str) -> bool:
        """Return whether an open transaction may change any offset of a group."""
        return any(groups.get(group_id) for groups in self._pending.values())

    def of_topics(self, topics: set[str]) -> Iterator[tuple[str, Place]]:
        """Yield group and partition of every offset of these topics."""
        for group_id, offsets in self._by_group.items():
            for place in offsets:
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
