"""Recognizes sequential readers of a partition, and downloads what they need next, across segments.

A reader is known by the offset at which its last read ended. Each read that begins where another has ended doubles how
far is read ahead for it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.tiering.read.chunk_cache import ChunkCache
    from crabka.broker.tiering.read.remote_log import RemoteLog
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition

MAX_AHEAD_CHUNKS: Final = 4
_MAX_READERS: Final = 1024


class ReadAhead:
    """Recent readers, and how many chunks are downloaded ahead for each."""

    def __init__(self, chunks: ChunkCache, on_next_segment: Callable[[RemoteLogSegmentMetadata], None]) -> None:
        """`on_next_segment` receives segments that a reader will reach."""
        self._chunks = chunks
        self._on_next_segment = on_next_segment
        self._depths: OrderedDict[tuple[TopicIdPartition, int], int] = OrderedDict()

    def note(self, log: RemoteLog, start_offset: int, next_offset: int) -> int:
        """Note a read; return how many chunks to read ahead for its reader."""
        partition = log.topic_id_partition
        before = self._depths.pop((partition, start_offset), None)
        depth = 0 if before is None else min(max(1, 2 * before), MAX_AHEAD_CHUNKS)
        self._depths[partition, next_offset] = max(depth, self._depths.get((partition, next_offset), 0))
        if len(self._depths) > _MAX_READERS:
            self._depths.popitem(last=False)
        return depth

    def begin(self, log: RemoteLog, segment: RemoteLogSegmentMetadata, position: int, depth: int) -> None:
        """Download up to `depth` chunks after a position, as far as there is room."""
        chunk_bytes = self._chunks.chunk_bytes
        number = (position - 1) // chunk_bytes + 1
        while depth > 0:
            if number * chunk_bytes >= segment.segment_size_bytes:
                following = self._following(log, segment)
                if following is None:
                    return
                segment, number = following, 0
                self._on_next_segment(segment)
                if not segment.segment_size_bytes:
                    depth -= 1
                    continue
            try:
                if not self._chunks.get_ahead(segment, number):
                    return
            except RemoteStorageError:
                return
            number += 1
            depth -= 1

    @staticmethod
    def _following(log: RemoteLog, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata | None:
        try:
            place = log.place_of(segment.end_offset + 1)
        except RemoteStorageError:
            return None
        return None if place is None else place.segment
