"""What all segments of a node share: the disk, caches and bounds, and the functions to call when something is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabka.log.partition.decompression import DecompressionBudget
from crabka.log.recovery.cuts import CutStats
from crabka.log.segment.caches import Handle, LruCache
from crabka.log.segment.descriptors import MAX_SEALED
from crabka.log.segment.indexes import SegmentIndexes
from crabka.log.segment.open_segments import OpenSegments

if TYPE_CHECKING:
    import random

    from crabka.ids import TopicPartition
    from crabka.ports import FileSystem


@dataclass(slots=True)
class SegmentContext:
    """Shared by all segments of a node."""

    fs: FileSystem
    # Draws the jitter of rolls; without it there is none.
    rng: random.Random | None = None
    handles: LruCache[Handle] = field(default_factory=lambda: LruCache(MAX_SEALED))
    indexes: LruCache[SegmentIndexes] = field(default_factory=lambda: LruCache(1024))
    # Memory for decompressed batches at a time, over all logs.
    decompression: DecompressionBudget = field(default_factory=DecompressionBudget)
    open_segments: OpenSegments = field(default_factory=OpenSegments)
    # Whether the node has a remote tier; without one no log is tiered, whatever its topic says.
    tiering: bool = True
    # What openings cut and rebuilt.
    cuts: CutStats = field(default_factory=CutStats)
    # Called with a log, the base offset of a segment that was found damaged, and the reason.
    report_damage: Callable[[TopicPartition, int, str], None] = lambda _log, _base_offset, _reason: None
    # Called with a path (file or directory) and the time from which it may be removed.
    schedule_deletion: Callable[[str, int], None] = lambda _path, _due_ms: None
