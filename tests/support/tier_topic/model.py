"""Two models of a partition's remote segments: all of them in a list, and the map per epoch that Kafka keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
GONE = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def offsets_of(segment: RemoteLogSegmentMetadata, epoch: int) -> tuple[int, int] | None:
    """Return the first and last offset that a segment has of an epoch."""
    following = [*segment.leader_epochs[1:], (-1, segment.end_offset + 1)]
    for (own, first), (_next, end) in zip(segment.leader_epochs, following, strict=True):
        if own == epoch:
            return first, end - 1
    return None


@dataclass
class SegmentList:
    """All segments in the order in which they were finished; every question looks at each of them."""

    segments: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    highest: dict[int, int] = field(default_factory=dict)

    def put(self, segment: RemoteLogSegmentMetadata) -> None:
        """Note a segment that is new or took a step."""
        self.segments = [known for known in self.segments if known.segment_id != segment.segment_id]
        if segment.state is not GONE:
            self.segments.append(segment)
        if segment.state is FINISHED:
            for epoch, _first in segment.leader_epochs:
                last = self._range(segment, epoch)[1]
                self.highest[epoch] = max(last, self.highest.get(epoch, last))

    def of_epoch(self, epoch: int) -> list[RemoteLogSegmentMetadata]:
        """Return the segments with records of an epoch, in all states."""
        return [segment for segment in self.segments if offsets_of(segment, epoch) is not None]

    def readable(self, epoch: int) -> list[RemoteLogSegmentMetadata]:
        """Return the finished segments with records of an epoch."""
        return [segment for segment in self.of_epoch(epoch) if segment.state is FINISHED]

    def covering(self, epoch: int, offset: int) -> list[RemoteLogSegmentMetadata]:
        """Return the finished segments that have an offset of an epoch."""
        ranges = [(segment, self._range(segment, epoch)) for segment in self.readable(epoch)]
        return [segment for segment, (first, last) in ranges if first <= offset <= last]

    def find(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the one that starts last of those that have an offset and that no other one hides."""
        visible = [segment for segment in self.covering(epoch, offset) if not self._is_hidden(segment, epoch)]
        return max(visible, key=lambda segment: self._range(segment, epoch)[0], default=None)

    def find_with_txn_index(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the first one with a transaction index from that of an offset on, hidden ones left out."""
        found = self.find(epoch, offset)
        start = offset if found is None else self._range(found, epoch)[0]
        candidates = [
            segment
            for segment in self.readable(epoch)
            if not segment.txn_index_empty
            and not self._is_hidden(segment, epoch)
            and self._range(segment, epoch)[0] >= start
            and self._range(segment, epoch)[1] >= offset
        ]
        return min(candidates, key=lambda segment: self._range(segment, epoch)[0], default=None)

    def _is_hidden(self, segment: RemoteLogSegmentMetadata, epoch: int) -> bool:
        first, last = self._range(segment, epoch)
        order = self.segments.index(segment)
        for other in self.readable(epoch):
            other_first, other_last = self._range(other, epoch)
            if other_first <= first and (other_last, self.segments.index(other)) > (last, order):
                return True
        return False

    @staticmethod
    def _range(segment: RemoteLogSegmentMetadata, epoch: int) -> tuple[int, int]:
        found = offsets_of(segment, epoch)
        assert found is not None
        return found


@dataclass
class KafkaEpochMap:
    """What Kafka keeps of one epoch: a map from first offsets to segments; the last one that does not start later is
    asked. A segment that reaches the highest offset replaces those that start at or after its own start."""

    by_first: dict[int, RemoteLogSegmentMetadata] = field(default_factory=dict)
    highest: int | None = None
    replaced_others: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    fell_short: bool = False  # some segment ended below the highest offset, which no leader's own copy does

    def finish(self, segment: RemoteLogSegmentMetadata, first: int, last: int) -> None:
        """Note a finished segment."""
        if self.highest is not None and self.highest > last:
            self.fell_short = True
        else:
            replaced = [start for start in self.by_first if start >= first]
            for start in replaced:
                del self.by_first[start]
            if replaced:
                self.replaced_others.append(segment)
        self.by_first[first] = segment
        self.highest = last if self.highest is None else max(self.highest, last)

    def delete(self, segment: RemoteLogSegmentMetadata, first: int) -> None:
        """Note that the deletion of a segment begins."""
        known = self.by_first.get(first)
        if known is not None and known.segment_id == segment.segment_id:
            del self.by_first[first]

    def find(self, offset: int, epoch: int) -> RemoteLogSegmentMetadata | None:
        """Return Kafka's answer."""
        starts = [start for start in self.by_first if start <= offset]
        if not starts:
            return None
        segment = self.by_first[max(starts)]
        found = offsets_of(segment, epoch)
        return segment if found is not None and offset <= found[1] else None
