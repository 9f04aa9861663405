"""Cleaning one log without a node: the same steps as the cleaner's, without threads."""

from __future__ import annotations

from crabka.log.cleaner.cleaning_pass import GroupCopier, RecordFilter, load_offsets
from crabka.log.cleaner.offset_map import OffsetMap
from crabka.log.cleaner.plan import CleaningRange
from crabka.log.partition.partition_log import PartitionLog


def clean(log: PartitionLog, *, first_dirty: int = 0, now_ms: int, map_bytes: int = 1 << 20) -> int:
    """Flush and clean a log, whatever its dirty ratio is; return the offset up to which it is clean."""
    log.flush()
    part = log.cleaning.survey(first_dirty, now_ms)()
    return clean_range(log, part, now_ms=now_ms, map_bytes=map_bytes)


def clean_range(log: PartitionLog, part: CleaningRange, *, now_ms: int, map_bytes: int = 1 << 20) -> int:
    """Clean a part of a log that is flushed; return the offset up to which it is clean."""
    view = log.cleaning.begin_pass(part, now_ms)
    offsets = OffsetMap(map_bytes, 0.9, part.first_uncleanable - part.first_dirty)
    for _ in load_offsets(view, offsets):
        pass
    keep = RecordFilter(view, offsets)
    for group in log.cleaning.groups(view, offsets.latest_offset + 1):
        copier = GroupCopier(view, group, keep)
        for _ in copier.steps():
            pass
        assert copier.cleaned is not None
        assert log.cleaning.replace_segments(group, copier.cleaned, now_ms)
    return offsets.latest_offset + 1
