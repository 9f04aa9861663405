"""The remote segments of one partition in memory, as readers and cleaners see them (KIP-405).

Owns what is known of each segment until its deletion is finished, and finds readable ones by epoch and offset through
one `EpochIndex` per leader epoch. Which states may follow each other is decided in `lifecycle`. Not thread-safe: the
metadata manager that owns it holds a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.remote.epoch_index import EpochIndex
from crabka.remote.lifecycle import is_segment_step, require_segment_add, require_segment_transition
from crabka.remote.removal_notice import is_active_notice, is_removal_notice
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from crabka.remote.segments import RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_GONE = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class RemoteLogMetadataCache:
    """What is known of the segments of one partition.

    | method                        | copy started | copy finished | delete started |
    |-------------------------------|--------------|---------------|----------------|
    | find, find_with_txn_index     | no           | yes           | no             |
    | size_bytes                    | no           | yes           | no             |
    | highest_offset                | no           | yes           | if it was ever finished |
    | segments, segments_of_epoch   | yes          | yes           | yes            |
    """

    __slots__ = (
        "_finished_count",
        "_highest_offsets",
        "_indexes",
        "_notices",
        "_segments",
        "_unreadable",
        "partition_delete",
    )

    def __init__(self) -> None:
        # By the number that is the id, whose hash is made in no time. Finished ones in the order in which they were
        # finished: it decides between equal segments.
        self._segments: dict[int, RemoteLogSegmentMetadata] = {}
        self._indexes: dict[int, EpochIndex] = {}
        self._unreadable: dict[int, RemoteLogSegmentMetadata] = {}
        self._highest_offsets: dict[int, int] = {}
        self._finished_count = 0
        self._notices: dict[int, RemoteLogSegmentMetadata] = {}
        self.partition_delete: RemotePartitionDeleteMetadata | None = None

    @property
    def has_segments(self) -> bool:
        """Whether any segment is known, in whatever state."""
        return bool(self._segments)

    @property
    def highest_offsets(self) -> Mapping[int, int]:
        """The highest offset per epoch that was ever copied."""
        return self._highest_offsets

    def add(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Note a segment whose copy begins; return False if nothing changed. Raises InvalidAddError."""
        key = metadata.segment_id.id.int
        is_being_emptied = bool(self._notices) and any(map(is_active_notice, self._notices.values()))
        if not require_segment_add(
            self._segments.get(key), metadata, self.partition_delete, is_being_emptied=is_being_emptied
        ):
            return False
        self._put_in(key, metadata)
        return True

    def update(self, update: RemoteLogSegmentMetadataUpdate) -> bool:
        """Take a step in the life of a segment; return False if nothing changed.

        Raises InvalidSegmentTransitionError.
        """
        before = self._segments.get(update.segment_id.id.int)
        if not require_segment_transition(before, update) or before is None:
            return False
        self._replace(before, before.with_update(update))
        return True

    def take_step(self, key: int, state: RemoteLogSegmentState, broker_id: int, event_timestamp_ms: int) -> bool:
        """Do what `update` does with a step without custom metadata, for the replay of many.

        Returns False, and nothing changed, if it may not follow: `update` says whether that is a retry or an error. The
        key is the number that is the segment's id.
        """
        before = self._segments.get(key)
        if before is None or not is_segment_step(before.state, state):
            return False
        self._replace(before, before.moved(state, broker_id, event_timestamp_ms, before.custom_metadata))
        return True

    def load(self, segments: Iterable[RemoteLogSegmentMetadata], highest_offsets: Mapping[int, int]) -> None:
        """Load the content of another cache, in its order and without checks of transitions."""
        for segment in segments:
            self._put_in(segment.segment_id.id.int, segment)
        for epoch, offset in highest_offsets.items():
            self._raise_highest(epoch, offset)

    def find(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the readable segment that has an offset of an epoch."""
        index = self._indexes.get(leader_epoch)
        return None if index is None else index.find(offset)

    def find_with_txn_index(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the first readable segment with a transaction index and this or a higher offset of an epoch."""
        index = self._indexes.get(leader_epoch)
        return None if index is None else index.find_with_txn_index(offset)

    def highest_offset(self, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied; deletions do not lower it."""
        return self._highest_offsets.get(leader_epoch)

    def size_bytes(self, leader_epoch: int) -> int:
        """Return the bytes of all readable segments that have records of an epoch."""
        index = self._indexes.get(leader_epoch)
        return 0 if index is None else index.size_bytes

    def segments(self) -> Collection[RemoteLogSegmentMetadata]:
        """Return all segments, finished ones in the order in which they were finished."""
        return self._segments.values()

    def segments_of_epoch(self, leader_epoch: int) -> Iterator[RemoteLogSegmentMetadata]:
        """Return all segments that have records of an epoch, in no order."""
        yield from self._indexes.get(leader_epoch, ())
        for segment in self._unreadable.values():
            if any(epoch == leader_epoch for epoch, _first in segment.leader_epochs):
                yield segment

    def _replace(self, before: RemoteLogSegmentMetadata, after: RemoteLogSegmentMetadata) -> None:
        # Not the equal number by which it was found: that would stay in memory beside this one.
        key = before.segment_id.id.int
        # Removed first, so that it comes after all others.
        del self._segments[key]
        self._notices.pop(key, None)
        if before.state is _FINISHED:
            self._unindex(before)
        else:
            del self._unreadable[key]
        if after.state is not _GONE:
            self._put_in(key, after)

    def _put_in(self, key: int, segment: RemoteLogSegmentMetadata) -> None:
        self._segments[key] = segment
        if not segment.segment_size_bytes and is_removal_notice(segment):
            self._notices[key] = segment
        if segment.state is not _FINISHED:
            self._unreadable[key] = segment
            return
        self._finished_count += 1
        for epoch, first, last in _epoch_ranges(segment):
            index = self._indexes.get(epoch)
            if index is None:
                index = self._indexes[epoch] = EpochIndex()
            index.add(first, last, self._finished_count, segment)
            self._raise_highest(epoch, last)

    def _unindex(self, segment: RemoteLogSegmentMetadata) -> None:
        for epoch, first, last in _epoch_ranges(segment):
            index = self._indexes[epoch]
            index.remove(first, last, segment)
            if not index:
                del self._indexes[epoch]

    def _raise_highest(self, epoch: int, offset: int) -> None:
        known = self._highest_offsets.get(epoch)
        if known is None or offset > known:
            self._highest_offsets[epoch] = offset


def _epoch_ranges(segment: RemoteLogSegmentMetadata) -> list[tuple[int, int, int]]:
    """Return each epoch of a segment with its first and last offset: up to the next epoch, or to the segment's end."""
    epochs, last = segment.leader_epochs, segment.end_offset
    if len(epochs) == 1:
        return [(*epochs[0], last)]
    ranges = []
    for epoch, first in reversed(epochs):
        ranges.append((epoch, first, last))
        last = first - 1
    return ranges
