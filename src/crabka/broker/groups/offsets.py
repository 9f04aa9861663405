"""Committed offsets of all groups of one partition of `__consumer_offsets`.

Offsets of an open transaction are pending: they become valid with its commit marker (KIP-447). The last commit of a
partition is the last by the order of the records, not by that of the markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from crabka.metadata.topics import TopicImage

NO_EXPIRY = -1

Place: TypeAlias = tuple[str, int]


class CommittedOffset(NamedTuple):
    """The committed offset of a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # Set by clients before OffsetCommit v5; -1 means the node's retention.
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: uuid.UUID = ZERO_UUID


class CommitRow(NamedTuple):
    """One partition of a request to commit: its number, and either its commit or what is wrong with it."""

    partition: int
    error_code: ErrorCode
    commit: tuple[Place, CommittedOffset] | None = None


def commit_row(
    topic: TopicImage | None, partition: Any, *, max_metadata_length: int, now_ms: int, retention_ms: int = -1
) -> CommitRow:
    """Check one partition of a request to commit."""
    index, metadata = partition.partition_index, partition.committed_metadata or ""
    if topic is None or index not in topic.partitions:
        return CommitRow(index, ErrorCode.unknown_topic_or_partition)
    if len(metadata) > max_metadata_length:
        return CommitRow(index, ErrorCode.offset_metadata_too_large)
    committed = CommittedOffset(
        partition.committed_offset,
        getattr(partition, "committed_leader_epoch", -1),
        metadata,
        now_ms,
        NO_EXPIRY if retention_ms < 0 else now_ms + retention_ms,
        topic.topic_id,
    )
    return CommitRow(index, ErrorCode.none, ((topic.name, index), committed))


class PendingOffset(NamedTuple):
    """A commit of an open transaction. Of two commits of a partition the one with the higher order is later."""

    order: int
    # None if a later commit is valid already: then this one never becomes valid.
    committed: CommittedOffset | None


class OffsetStore:
    """Offsets by group and partition, changed in the order of the log."""

    __slots__ = ("_by_group", "_order", "_pending", "_producers", "_topics")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, Place], PendingOffset]] = {}
        # The producers with a pending commit for a partition of a group.
        self._producers: dict[str, dict[Place, set[int]]] = {}
        self._order = 0
        # One string per topic name, shared by all groups.
        self._topics: dict[str, str] = {}

    def put(self, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Store a commit. Pending commits are before it, but stay pending."""
        offsets = self._by_group.get(group_id)
        if offsets is None:
            offsets = self._by_group[group_id] = {}
        offsets[self._own(place)] = committed
        if self._pending:
            self._supersede(group_id, place, self._order)

    def put_pending(self, producer_id: int, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Store a commit of an open transaction."""
        self._order += 1
        self._pending.setdefault(producer_id, {})[group_id, place] = PendingOffset(self._order, committed)
        self._producers.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """End the transaction of a producer: its offsets become valid, unless a later commit is, or are dropped."""
        for (group_id, place), (order, committed) in self._pending.pop(producer_id, {}).items():
            self._forget_producer(producer_id, group_id, place)
            if commit and committed is not None:
                self._by_group.setdefault(group_id, {})[self._own(place)] = committed
                self._supersede(group_id, place, order)

    def delete(self, group_id: str, place: Place) -> None:
        """Remove an offset, also a pending one, if it is known."""
        offsets = self._by_group.get(group_id)
        if offsets is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._by_group[group_id]
        for producer_id in list(self._producers.get(group_id, {}).get(place, ())):
            del self._pending[producer_id][group_id, place]
            self._forget_producer(producer_id, group_id, place)

    def get(self, group_id: str, place: Place) -> CommittedOffset | None:
        """Return the last committed offset."""
        offsets = self._by_group.get(group_id)
        return None if offsets is None else offsets.get(place)

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """Return all offsets of a group."""
        return self._by_group.get(group_id, {})

    def places_of_group(self, group_id: str) -> list[Place]:
        """Return the partitions with commits of a group, also in open transactions."""
        return list({**dict.fromkeys(self.of_group(group_id)), **dict.fromkeys(self._producers.get(group_id, ()))})

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Return whether an open transaction may change the offset."""
        return place in self._producers.get(group_id, ())

    def has_pending(self, group_id: str) -> bool:
        """Return whether an open transaction may change any offset of a group."""
        return group_id in self._producers

    def pending_of_group(self, group_id: str) -> list[tuple[int, Place, PendingOffset]]:
        """Return the pending commits of a group: producer, partition and commit."""
        return [
            (producer_id, place, self._pending[producer_id][group_id, place])
            for place, producers in self._producers.get(group_id, {}).items()
            for producer_id in producers
        ]

    def restore_pending(self, group_id: str, pending: Iterable[tuple[int, Place, PendingOffset]]) -> None:
        """Restore pending commits, as `pending_of_group` returned them, after a `delete`."""
        for producer_id, place, commit in pending:
            self._pending.setdefault(producer_id, {}).setdefault((group_id, place), commit)
            self._producers.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def _own(self, place: Place) -> Place:
        topic, partition = place
        return self._topics.setdefault(topic, topic), partition

    def _supersede(self, group_id: str, place: Place, order: int) -> None:
        """Invalidate pending commits up to an order."""
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
        """Return the expired offsets of a group.

        `base_ms` returns the start of the retention of an offset of a topic; None keeps it.
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
