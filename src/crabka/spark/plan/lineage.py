"""Which copy of an offset counts: the segments of a partition as one history without overlaps.

Leaders may have copied the same offsets twice, and an unclean election leaves segments that are no part of the history
any more. An offset of a segment counts if the history has it in the same leader epoch (KIP-405, KIP-101); among several
segments with the same offset and epoch any will do, since they hold the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crabka.formats.leader_epochs import EpochLineage
from crabka.remote.segments import RemoteLogSegmentMetadata


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
    return {epoch: span.stop for epoch, span in EpochLineage(lineage).ranges.items()}


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
