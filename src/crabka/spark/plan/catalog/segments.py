"""The segments of a tier by partition, and which of their offsets count.

Leaders may have copied the same offsets twice, and an unclean election leaves segments that are no longer part of the
history. An offset of a segment counts if the history has it in the same leader epoch (KIP-405, KIP-101). Segments with
the same offset and epoch hold the same bytes, so any of them will do.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crabka.errors import ConfigError
from crabka.formats.leader_epochs import EpochLineage
from crabka.ids import uuid_to_text
from crabka.remote.scrub.faults import TierFaultKind
from crabka.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition

Segments = Sequence[RemoteLogSegmentMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableSegment:
    """A segment that does not count: why, because of which object, and when its youngest object was written."""

    segment_id: RemoteLogSegmentId
    base_offset: int
    kind: TierFaultKind
    reason: str
    object_name: str
    newest_ms: int

    def __str__(self) -> str:
        return f"segment {self.base_offset:020d} of {self.segment_id.topic_id_partition}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TierCatalog:
    """Finished segments, and what of the tier does not count."""

    segments: Mapping[TopicIdPartition, Segments] = field(default_factory=dict)
    unusable: tuple[UnusableSegment, ...] = ()

    @property
    def ignored(self) -> tuple[str, ...]:
        """What does not count, as text."""
        return tuple(map(str, self.unusable))

    def of(self, topic_id: uuid.UUID, topic: str, partition: int) -> Segments:
        """Return the segments of a partition."""
        return self.segments.get(TopicIdPartition(topic_id, topic, partition), ())

    def topic_ids(self, topic_id: uuid.UUID | None = None) -> dict[str, uuid.UUID]:
        """Return the ids of the topics that the tier has; with an id, only that one is looked at.

        Raises ConfigError if a name belongs to several topics.
        """
        found: dict[str, uuid.UUID] = {}
        for partition in self.segments:
            if topic_id is not None and partition.topic_id != topic_id:
                continue
            known = found.setdefault(partition.topic, partition.topic_id)
            if known != partition.topic_id:
                both = sorted(uuid_to_text(each) for each in (known, partition.topic_id))
                raise ConfigError(
                    f"the tier has two topics {partition.topic}, {both[0]} and {both[1]}; choose one by tier.topicId"
                )
        return found

    def partitions(self, topic: str, topic_id: uuid.UUID) -> list[int]:
        """Return the partitions of a topic of which the tier has something."""
        return sorted(each.partition for each in self.segments if each.topic == topic and each.topic_id == topic_id)


class TierPart(NamedTuple):
    """The offsets from `start` up to, not including, `end` that are to be read from a segment."""

    segment: RemoteLogSegmentMetadata
    start: int
    end: int


class _Candidate(NamedTuple):
    start: int
    end: int
    segment: RemoteLogSegmentMetadata


def epoch_ends_of(lineage: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return where each epoch of a history ends; the last one does not."""
    return {epoch: end for epoch, (_, end) in EpochLineage(lineage).spans.items()}


def segment_epochs(segments: Iterable[RemoteLogSegmentMetadata]) -> list[int]:
    """Return all epochs in which records of segments were written."""
    return sorted({epoch for segment in segments for epoch, _ in segment.leader_epochs})


def is_in_history(segment: RemoteLogSegmentMetadata, epoch_ends: Mapping[int, int]) -> bool:
    """Return whether a segment has any offset of the history; copies of the same offsets all have."""
    return bool(_candidates_of(segment, epoch_ends))


def choose_parts(segments: Iterable[RemoteLogSegmentMetadata], epoch_ends: Mapping[int, int]) -> list[TierPart]:
    """Return which offsets to read from which segments, in order and without overlaps.

    `epoch_ends` has the epochs of the history with their ends. Offsets that no segment has are left out.
    """
    candidates: list[_Candidate] = []
    for segment in segments:
        candidates += _candidates_of(segment, epoch_ends)
    candidates.sort(key=lambda each: (each.start, -each.end))
    return _cover(candidates)


def _candidates_of(segment: RemoteLogSegmentMetadata, epoch_ends: Mapping[int, int]) -> list[_Candidate]:
    """Return what a segment has of the history, neighbouring epochs as one."""
    end = segment.end_offset + 1
    found: list[_Candidate] = []
    for epoch, first in reversed(segment.leader_epochs):
        reach = min(end, epoch_ends.get(epoch, -1))
        if reach > first:
            if found and found[-1].start == reach:
                found[-1] = _Candidate(first, found[-1].end, segment)
            else:
                found.append(_Candidate(first, reach, segment))
        end = first
    return found


def _cover(candidates: list[_Candidate]) -> list[TierPart]:
    """Take at every offset the candidate that reaches farthest, and keep it as long as it goes."""
    parts: list[TierPart] = []
    at, position = 0, -1
    while at < len(candidates):
        position = max(position, candidates[at].start)
        best = candidates[at]
        while at < len(candidates) and candidates[at].start <= position:
            if candidates[at].end > best.end:
                best = candidates[at]
            at += 1
        if best.end <= position:
            continue
        parts.append(TierPart(best.segment, position, best.end))
        position = best.end
    return parts
