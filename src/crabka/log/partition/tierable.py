"""What the remote tier takes: which topics, and of a sealed segment which offsets and files (KIP-405).

A `TierableSegment` describes what a log has on disk at one moment. Retention or truncation may take the files away
later; a copier keeps its files open or starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crabka.config.topic import UNTIERED_TOPICS

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig


def is_tierable(topic: str, config: TopicConfig) -> bool:
    """Return whether the segments of a topic go to the remote tier, if the node has one."""
    return config.remote_storage_enable and not config.compact and topic not in UNTIERED_TOPICS


@dataclass(frozen=True, slots=True)
class TierableSegment:
    """A segment that is not appended to any more."""

    base_offset: int
    # Inclusive: one below the next segment's base.
    end_offset: int
    size_bytes: int
    # The largest timestamp of the records or, if none has one, when the file was last changed.
    max_timestamp_ms: int
    log_path: str
    offset_index_path: str
    time_index_path: str
    # The state of the producers at the end of the segment.
    producer_snapshot_path: str
    # None if no transaction was aborted in the segment.
    txn_index_path: str | None
    # Whether a crash can no longer take anything of it.
    is_flushed: bool


class UntieredPart(NamedTuple):
    """The local segments that the remote tier does not hold to their end; the active one cannot be copied yet."""

    sealed_count: int
    sealed_bytes: int
    active_bytes: int


class SegmentExtent(NamedTuple):
    """The offsets of a local segment, both inclusive, and its bytes."""

    base_offset: int
    end_offset: int
    size_bytes: int
