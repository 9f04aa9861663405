"""The cleaning side of a partition log: what is dirty, what a pass works on, and installing its result."""

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
from crabka.log.segment.segment import Segment

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.log.cleaner.cleaning_pass import CleanedSegment
    from crabka.log.partition.state import LogState


class LogCleaning:
    """The log as the cleaner sees it."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    @property
    def truncation_count(self) -> int:
        """How often the log was truncated: offsets that were clean may hold other records now."""
        return self._state.truncations

    def may_be_dirty(self, first_dirty: int) -> bool:
        """Return whether a sealed segment has batches from `first_dirty` on. Does not wait for the disk."""
        active = self._state.active
        limit = min(self._state.last_stable_offset, active.base_offset)
        dirty = self._state.segments.from_offset(first_dirty)
        return any(segment.size and segment.base_offset < limit for segment in dirty if segment is not active)

    def survey(self, first_dirty: int, now_ms: int) -> Callable[[], CleaningRange]:
        """Return a function that finds what a pass would clean. It may wait for the disk and runs in any thread."""
        state = self._state
        # The checkpoint is wrong for a log that was truncated at its end or its start.
        if not state.log_start_offset <= first_dirty <= state.log_end_offset:
            first_dirty = state.log_start_offset
        limit = min(state.last_stable_offset, state.active.base_offset)
        return partial(_survey, self._sealed(), state.config, first_dirty, limit, now_ms)

    def begin_pass(self, part: CleaningRange, now_ms: int) -> CleaningView:
        """Return the input of a pass, as it is now."""
        state = self._state
        chosen = [segment for segment, end in self._sealed() if end <= part.first_uncleanable]
        later = [segment for segment in state.segments if segment.base_offset >= part.first_uncleanable]
        entries = state.producer_state.entries.values()
        return CleaningView(
            context=state.context,
            directory=state.path,
            config=state.config,
            segments=chosen,
            part=part,
            last_records={
                entry.producer_id: LastRecord(
                    entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch
                )
                for entry in entries
            },
            later_aborted=[aborted for segment in later for aborted in segment.aborted()],
            now_ms=now_ms,
            memory=BatchMemory(decompressed_limit(state.config), search_limit(state.config)),
        )

    def groups(self, view: CleaningView, end_offset: int) -> list[list[Segment]]:
        """Return the segments below `end_offset` in the groups that become one segment each. May wait for the disk."""
        config = self._state.config
        by_base = {segment.base_offset: segment for segment in view.segments if segment.base_offset < end_offset}
        bases = [*by_base, view.part.first_uncleanable]
        facts = [
            _facts(segment, end, config)._replace(
                offset_index_bytes=len(segment.indexes().offsets) * OFFSET_ENTRY_SIZE,
                time_index_bytes=len(segment.indexes().times) * TIME_ENTRY_SIZE,
            )
            for segment, end in zip(by_base.values(), bases[1:], strict=True)
        ]
        groups = group_segments(
            facts,
            max_bytes=config.effective_segment_bytes,
            max_index_bytes=config.effective_segment_index_bytes,
        )
        return [[by_base[each.base_offset] for each in group] for group in groups]

    def replace_segments(self, group: Sequence[Segment], cleaned: CleanedSegment, now_ms: int) -> bool:
        """Replace a group by a cleaned segment, durably decided; return False if the group is not there.

        Retention, truncation or deletion may have been faster; then nothing is changed.
        """
        state = self._state
        index = state.segments.floor_index(group[0].base_offset)
        if list(state.segments)[index : index + len(group)] != list(group) or group[-1].is_active:
            return False
        with state.storage_errors():
            self._swap_files(group, cleaned, now_ms)
        segment = Segment(state.context, state.path, group[0].base_offset, cleaned.size)
        segment.index_interval_bytes = state.config.index_interval_bytes
        state.segments.replace(index, len(group), segment)
        with state.storage_errors():
            segment.aborted()
            state.write_aborted_note()
        state.unsynced = [each for each in state.unsynced if each not in group]
        state.name_changes += 1
        state.deletions += 1
        return True

    def _swap_files(self, group: Sequence[Segment], cleaned: CleanedSegment, now_ms: int) -> None:
        state, context = self._state, self._state.context
        # Lookups in threads may still use the old segments.
        for segment in group:
            segment.pin()
        cleaned.files.commit()
        due_ms = now_ms + state.config.file_delete_delay_ms
        for segment in group[1:]:
            segment.delete_later(due_ms)
            state.snapshots.remove(segment.base_offset)
        if len(group) > 1:
            # Otherwise a crash could bring them back beside the segment that has their batches.
            context.fs.fsync_dir(state.path)
        replaced = group[0].log_path
        context.fs.rename(replaced, replaced + DELETED_SUFFIX)
        context.schedule_deletion(replaced + DELETED_SUFFIX, due_ms)
        cleaned.files.install()
        group[0].forget_cached()

    def _sealed(self) -> list[tuple[Segment, int]]:
        """Return the sealed segments with the offsets at which they end."""
        segments = list(self._state.segments)
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
