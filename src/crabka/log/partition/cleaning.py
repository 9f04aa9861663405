"""The cleaning side of a partition log: what is dirty, what a pass works on, and putting its result in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from crabka.config.keys import LONG_MAX
from crabka.formats.file_names import DELETED_SUFFIX
from crabka.formats.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from crabka.formats.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from crabka.log.cleaner.cleaning_pass import CleaningView, LastRecord
from crabka.log.cleaner.memory import BatchMemory
from crabka.log.cleaner.plan import CleaningRange, SegmentFacts, first_uncleanable_offset, group_segments
from crabka.log.partition.decompression import decompressed_limit, search_limit
from crabka.log.partition.state import LogState
from crabka.log.segment.segment import Segment

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.log.cleaner.cleaning_pass import CleanedSegment


class LogCleaning(LogState):
    """What the cleaner asks of a log."""

    @property
    def truncation_count(self) -> int:
        """How often the log was truncated: what was known as clean may be other records now."""
        return self._truncations

    def may_be_dirty(self, first_dirty: int) -> bool:
        """Return whether a sealed segment has batches behind `first_dirty`. Does not wait for the disk."""
        limit = min(self.last_stable_offset, self._active.base_offset)
        dirty = self._segments.from_offset(first_dirty)
        return any(segment.size and segment.base_offset < limit for segment in dirty if segment is not self._active)

    def cleaning_survey(self, first_dirty: int, now_ms: int) -> Callable[[], CleaningRange]:
        """Return what finds out what a cleaning would work on. That may wait for the disk and runs in any thread."""
        # The checkpoint tells nothing true of a log that lost its end or its begin.
        if not self.log_start_offset <= first_dirty <= self.log_end_offset:
            first_dirty = self.log_start_offset
        limit = min(self.last_stable_offset, self._active.base_offset)
        return partial(_survey, self._sealed(), self.config, first_dirty, limit, now_ms)

    def begin_cleaning(self, part: CleaningRange, now_ms: int) -> CleaningView:
        """Return what a pass needs to know, as it is now."""
        chosen = [segment for segment, end in self._sealed() if end <= part.first_uncleanable]
        behind = [segment for segment in self._segments if segment.base_offset >= part.first_uncleanable]
        entries = self.producer_state.entries.values()
        return CleaningView(
            context=self._context,
            directory=self.path,
            config=self.config,
            segments=chosen,
            part=part,
            last_records={
                entry.producer_id: LastRecord(
                    entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch
                )
                for entry in entries
            },
            later_aborted=[aborted for segment in behind for aborted in segment.aborted()],
            now_ms=now_ms,
            memory=BatchMemory(decompressed_limit(self.config), search_limit(self.config)),
        )

    def cleaning_groups(self, view: CleaningView, end_offset: int) -> list[list[Segment]]:
        """Return the segments below `end_offset` in the groups that become one segment each. May wait for the disk."""
        by_base = {segment.base_offset: segment for segment in view.segments if segment.base_offset < end_offset}
        bases = [*by_base, view.part.first_uncleanable]
        facts = [
            _facts(segment, end, self.config)._replace(
                offset_index_bytes=len(segment.indexes().offsets) * OFFSET_ENTRY_SIZE,
                time_index_bytes=len(segment.indexes().times) * TIME_ENTRY_SIZE,
            )
            for segment, end in zip(by_base.values(), bases[1:], strict=True)
        ]
        groups = group_segments(
            facts,
            max_bytes=self.config.effective_segment_bytes,
            max_index_bytes=self.config.effective_segment_index_bytes,
        )
        return [[by_base[each.base_offset] for each in group] for group in groups]

    def replace_segments(self, group: Sequence[Segment], cleaned: CleanedSegment, now_ms: int) -> bool:
        """Put a cleaned segment in the place of a group, durably decided; return False if the group is not there.

        Retention, truncation or deletion may have been faster; then nothing is touched.
        """
        index = self._segments.floor_index(group[0].base_offset)
        if list(self._segments)[index : index + len(group)] != list(group) or group[-1].is_active:
            return False
        with self._storage_errors():
            # Lookups in threads may still go through the old segments.
            for segment in group:
                segment.pin()
            cleaned.files.commit()
            due_ms = now_ms + self.config.file_delete_delay_ms
            for segment in group[1:]:
                segment.delete_later(due_ms)
                self._snapshots.remove(segment.base_offset)
            if len(group) > 1:
                # Else a crash could bring them back beside the segment that has their batches.
                self._context.fs.fsync_dir(self.path)
            replaced = group[0].log_path
            self._context.fs.rename(replaced, replaced + DELETED_SUFFIX)
            self._context.schedule_deletion(replaced + DELETED_SUFFIX, due_ms)
            cleaned.files.install()
            group[0].forget_cached()
        segment = Segment(self._context, self.path, group[0].base_offset, cleaned.size)
        segment.index_interval_bytes = self.config.index_interval_bytes
        self._segments.replace(index, len(group), segment)
        with self._storage_errors():
            segment.aborted()
            self._write_aborted_note()
        self._unsynced = [each for each in self._unsynced if each not in group]
        self._note_names()
        self._deletions += 1
        return True

    def _sealed(self) -> list[tuple[Segment, int]]:
        """Return the sealed segments with the offsets at which they end."""
        segments = list(self._segments)
        return [(each, following.base_offset) for each, following in pairwise(segments)]


def _survey(
    sealed: Sequence[tuple[Segment, int]], config: TopicConfig, first_dirty: int, limit: int, now_ms: int
) -> CleaningRange:
    facts = [_facts(segment, end, config) for segment, end in sealed]
    first_uncleanable = first_uncleanable_offset(
        facts, first_dirty, limit=limit, min_lag_ms=config.min_compaction_lag_ms, now_ms=now_ms
    )
    dirty = [each for each in facts if first_dirty < each.end_offset <= first_uncleanable]
    oldest_ms = -1
    if config.max_compaction_lag_ms < LONG_MAX:
        bases = {each.base_offset for each in dirty}
        oldest_ms = _oldest_timestamp([segment for segment, _ in sealed if segment.base_offset in bases])
    return CleaningRange(
        first_dirty=first_dirty,
        first_uncleanable=max(first_dirty, first_uncleanable),
        clean_bytes=sum(each.size for each in facts if each.end_offset <= first_dirty),
        cleanable_bytes=sum(each.size for each in dirty),
        oldest_dirty_ms=oldest_ms,
    )


def _facts(segment: Segment, end_offset: int, config: TopicConfig) -> SegmentFacts:
    timestamp = segment.largest_timestamp() if config.min_compaction_lag_ms > 0 and segment.size else -1
    return SegmentFacts(segment.base_offset, end_offset, segment.size, 0, 0, timestamp)


def _oldest_timestamp(segments: Sequence[Segment]) -> int:
    """Return the smallest time of the segments' first batches, -1 if none has one."""
    first = [header.max_timestamp for segment in segments for _, header in islice(segment.headers(), 1)]
    return min((timestamp for timestamp in first if timestamp >= 0), default=-1)
