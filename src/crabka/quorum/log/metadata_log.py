"""The files of `__cluster_metadata-0`: segments, indexes, leader epochs.

Owns the directory except snapshots and quorum-state. Appended bytes are durable when `append` returns; after `write`,
`begin_flush` makes them durable, and only its `run` may execute in a thread in parallel with other calls. Otherwise the
class blocks on the disk and is not thread-safe: its driver makes one call at a time.

After a power cut the end of the last segment may be torn; `open` truncates the log at the first damaged batch, with a
warning. Acknowledged records are before that point, since they were synced, unless the disk lost them later:
`durable_end` shows that, and the caller of `open` may refuse the log before it is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from crabka.config.topic import TopicConfig
from crabka.errors import CorruptDataError, require
from crabka.formats.file_names import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    offset_name,
)
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.segment.caches import Handle
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.indexes import IndexBuilder, SegmentIndexes
from crabka.log.segment.scan import scan_headers
from crabka.log.segment.segment import Segment
from crabka.quorum.healing.check import SegmentsTarget, SegmentTarget, WrongIndexes
from crabka.quorum.log.durable_end import DurableEnd
from crabka.quorum.log.epoch_runs import WrongRun
from crabka.quorum.log.reader import LogReader, LogSegments
from crabka.quorum.log.recent_batches import RecentBatch
from crabka.quorum.log.side_files import SideFiles
from crabka.quorum.log.survey import (
    LogSurvey,
    MetadataDamage,
    StoredBatch,
    read_segment,
    survey_log,
)
from crabka.records.header import BatchHeader, parse_header

if TYPE_CHECKING:
    from crabka.ports import FileSystem
    from crabka.quorum.settings import MetadataLogSettings

DIRECTORY_NAME = "__cluster_metadata-0"
# Of the leader epoch in a batch: after base offset and length.
EPOCH_POSITION = 12
logger = logging.getLogger(__name__)
# Raises to refuse a log before it is changed.
Accept = Callable[[LogSurvey, OffsetAndEpoch | None], None]


class LogFlush(NamedTuple):
    """A sync of the log up to `end_offset`, ready to run in a thread."""

    end: OffsetAndEpoch
    handle: Handle
    fs: FileSystem
    # Set if a new file needs its name synced.
    directory: str | None
    note: DurableEnd

    @property
    def end_offset(self) -> int:
        """The end offset that the sync makes durable."""
        return self.end.offset

    def run(self) -> int:
        """Sync the log, then record its durable end; return the end offset. Raises OSError."""
        self.handle.file.fsync()
        if self.directory is not None:
            self.fs.fsync_dir(self.directory)
        self.note.raise_to(self.end)
        return self.end.offset


class MetadataLog:
    """The metadata log of a node."""

    def __init__(self, fs: FileSystem, directory: str, settings: MetadataLogSettings, cluster_id: str = "") -> None:
        self._fs = fs
        self._note = DurableEnd(fs, directory, cluster_id)
        self._directory = directory
        self._settings = settings
        self._config = TopicConfig(segment_ms=settings.segment_ms, segment_bytes=settings.segment_bytes)
        self._context = SegmentContext(fs)
        self._files = LogSegments(self._context, directory)
        self._reader = LogReader(self._files)
        self._side_files = SideFiles(fs, directory)
        # A new file needs its directory synced before its content counts as durable.
        self._names_changed = False
        # The epoch of the record before the log start.
        self._start_epoch = 0
        # Increases with each truncation or restart of the log.
        self.changes = 0
        # Records and bytes that `open` cut off, for metrics.
        self.cut_count = 0
        self.cut_bytes = 0

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        settings: MetadataLogSettings,
        *,
        start_offset: int,
        start_epoch: int | None = None,
        cluster_id: str = "",
        accept: Accept | None = None,
        shown_end: OffsetAndEpoch | None = None,
        now_ms: int,
    ) -> MetadataLog:
        """Open or create the log; `start_offset` is where the newest snapshot ends, the log's start if it is new.

        `start_epoch` is the epoch of the last record in the snapshot. A log with another epoch there was about to be
        replaced by that snapshot, and is dropped. `accept` receives the survey and the recorded durable end, and may
        raise; it is called before anything is changed. `shown_end` is an end that damaged files show to have been
        durable; it counts if the recorded end is lower. A log that begins after `start_offset` is dropped as well:
        the records before it are missing.
        """
        log = cls(fs, directory, settings, cluster_id)
        log._start_epoch = start_epoch or 0
        survey = survey_log(fs, directory, start_offset, log._note.end)
        if accept is not None:
            accept(survey, log._note.end)
        shown = [end for end in (survey.sealed_end, shown_end) if end is not None]
        if log._note.end is None and shown:
            log._note.replace(max(shown, key=lambda end: end.recency))
        log._load(survey, now_ms)
        if not log._files.segments or log.end_offset < start_offset or not log._agrees(start_offset, start_epoch):
            log._restart_at(OffsetAndEpoch(start_offset, start_epoch or 0), now_ms)
        log._note.raise_to(log.end)
        log._note.sync()
        require(log.start_offset <= start_offset, f"the log starts at {log.start_offset}, the snapshot ends before")
        wrong = log._side_files.mend_partition_metadata()
        if wrong:
            logger.warning("Written anew: %s", wrong)
        return log

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self._files.end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds."""
        return self._files.segments[0].base_offset

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log, with the epoch of its last record or of the snapshot before it."""
        return OffsetAndEpoch(
            self._files.end_offset, self._files.epochs.latest if self._files.epochs.latest >= 0 else self._start_epoch
        )

    @property
    def durable_end(self) -> OffsetAndEpoch | None:
        """The recorded durable end: the log has lost entries if it ends below that."""
        return self._note.end

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch in the log, -1 in an empty one."""
        return self._files.epochs.latest

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size for segment in self._files.segments)

    def write(self, batches: Sequence[bytes], now_ms: int) -> None:
        """Write batches at the log end; a later flush makes them durable.

        After an OSError of either the log must not be used.
        """
        for batch in batches:
            header = parse_header(batch)
            self._maybe_roll(header, now_ms)
            active = self._files.segments[-1]
            self._files.recent.add(RecentBatch(header.base_offset, active.base_offset, active.size, batch))
            active.append([batch], header.size_in_bytes, header.last_offset, header.max_timestamp)
            self._files.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self._files.end_offset = header.next_offset

    def begin_flush(self) -> LogFlush:
        """Return the sync that makes everything written so far durable."""
        directory = self._directory if self._names_changed else None
        self._names_changed = False
        return LogFlush(self.end, self._files.segments[-1].handle(), self._fs, directory, self._note)

    def read(self, start_offset: int) -> Iterator[StoredBatch]:
        """Yield the batches from the one that holds `start_offset` on. Raises CorruptDataError for a bad one."""
        return self._reader.read(start_offset)

    def read_slice(self, offset: int, max_bytes: int) -> bytes:
        """Return valid batches of one segment from the one that holds `offset` on: at least one, if there is any.

        Raises CorruptDataError if the batch of `offset` is damaged.
        """
        return self._reader.read_slice(offset, max_bytes)

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the record at an offset, None if the log does not hold it."""
        return self._reader.epoch_at(offset)

    def epoch_end(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest epoch of the log not above `epoch`, and its end offset; None if there is no such epoch."""
        lineage = self._files.epochs.lineage
        known = lineage.floor_epoch(epoch)
        return None if known is None else (known, min(lineage.end_of(known), self._files.end_offset))

    def truncate(self, end_offset: int, now_ms: int) -> int:
        """Truncate the log to `end_offset`, durably; return its end, which is lower if that was inside a batch.

        Raises CorruptDataError, before anything is changed, if damage hides that position.
        """
        if not self._reader.can_cut_at(end_offset):
            raise CorruptDataError(self._directory, f"damage hides the position to truncate to offset {end_offset}")
        self._lower_note(self._end_before(end_offset))
        self.changes += 1
        self._files.recent.truncate(end_offset)
        reopen = False
        while len(self._files.segments) > 1 and self._files.segments[-1].base_offset > end_offset:
            self._drop(self._files.segments.pop())
            reopen = True
        active = self._files.segments[-1]
        if reopen:
            active.activate(active.indexes(), self._config, now_ms)
        self._files.end_offset = active.truncate(end_offset)
        self._files.epochs.truncate_from_end(self._files.end_offset)
        self._sync()
        return self._files.end_offset

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end, unless the active one is empty. Waits for the disk."""
        active = self._files.segments[-1]
        if active.size == 0:
            return
        active.handle().file.fsync()
        if self._files.epochs.dirty:
            # After a crash epochs are read from the last segment only, and this segment no longer is the last.
            self._side_files.write_epochs(self._files.epochs)
        active.seal()
        self._side_files.write_producer_snapshot(self._files.end_offset)
        self._add_segment(self._files.end_offset, now_ms)

    def begin_check(self) -> SegmentsTarget:
        """Return the current segments as input of a check."""
        files = self._files
        segments = [
            SegmentTarget(segment, segment.size, files.end_of(segment), is_sealed=not segment.is_active)
            for segment in files.segments
        ]
        return SegmentsTarget(self._fs, segments, LeaderEpochCache(files.epochs.entries), self.changes)

    @property
    def restored_count(self) -> int:
        """How many damaged batches were restored from memory."""
        return self._reader.restored_count

    def restore(self, segments: Sequence[Segment]) -> list[int]:
        """Restore damaged recent batches of these segments from memory, durably; return their offsets."""
        return [offset for segment in segments for offset in self._reader.restore(segment)]

    def end_of(self, segment: Segment) -> int:
        """Return the offset after the last record of a segment, or of one that is gone."""
        return self._files.end_of(segment)

    def replace_indexes(self, wrong: Sequence[WrongIndexes]) -> list[str]:
        """Rebuild index files that do not match their segments; return their faults."""
        for each in wrong:
            each.segment.write_indexes(each.indexes)
            each.segment.forget_cached()
        return [str(each) for each in wrong]

    def mend_side_files(self) -> Iterator[str]:
        """Rewrite damaged side files and yield their faults. No flush may be under way."""
        yield from self._side_files.mend(self._files.epochs)
        yield from filter(None, [self._note.mend()])

    def delete_before(self, offset: int) -> int:
        """Remove segments that end at or below `offset`, never the active one; return how many."""
        count = 0
        while len(self._files.segments) > 1 and self._files.segments[1].base_offset <= offset:
            segment = self._files.segments.pop(0)
            segment.close()
            self._remove_files(segment)
            count += 1
        if count:
            self._files.epochs.truncate_from_start(self.start_offset)
            self._side_files.write_epochs(self._files.epochs)
            self._fs.fsync_dir(self._directory)
        return count

    def restart_at(self, snapshot: OffsetAndEpoch, now_ms: int) -> None:
        """Drop everything and restart the log after a durable snapshot."""
        self._lower_note(snapshot)
        self._restart_at(snapshot, now_ms)

    def settle(self) -> None:
        """A leader restored the lost entries: record the current end as durable, durably on return."""
        self._note.replace(self.end)

    def _restart_at(self, snapshot: OffsetAndEpoch, now_ms: int) -> None:
        offset, self._start_epoch = snapshot
        self.changes += 1
        self._files.recent.truncate(0)
        while self._files.segments:
            self._drop(self._files.segments.pop())
        self._files.epochs.clear()
        self._files.end_offset = offset
        self._add_segment(offset, now_ms)
        self._sync()

    def close(self) -> None:
        """Write the indexes and, as Kafka does, an empty producer snapshot at the end offset."""
        if not self._files.segments:
            return
        self._sync()
        self._note.close()
        active = self._files.segments[-1]
        active.seal()
        self._side_files.write_producer_snapshot(self._files.end_offset)
        for segment in self._files.segments:
            segment.close()
        self._files.segments = []

    def _load(self, survey: LogSurvey, now_ms: int) -> None:
        """Keep the valid part and truncate the rest."""
        self._files.epochs = survey.epochs
        stored = self._side_files.read_epochs()
        if stored == self._files.epochs.entries:
            self._files.epochs.note_saved(self._files.epochs.version)
        elif stored and not self._files.epochs.entries:
            self._side_files.write_epochs(self._files.epochs)
        self._files.end_offset = survey.end_offset
        for base, size in survey.segments:
            self._files.segments.append(Segment(self._context, self._directory, base, size))
        if survey.covered_segments:
            text = "Segments %s of %s are removed, a snapshot covers them: %s"
            logger.warning(text, survey.covered_segments, self._directory, survey.covered_reason)
            for base in survey.covered_segments:
                self._drop(Segment(self._context, self._directory, base, 0))
        for wrong in survey.wrong_epochs:
            self._correct_epochs(wrong)
        if survey.damage is not None:
            self._cut(survey, survey.damage)
        if self._files.segments:
            self._activate_last(now_ms)

    def _cut(self, survey: LogSurvey, damage: MetadataDamage) -> None:
        """Remove damaged segments; the last one first, so that a crash in between leaves no gap."""
        logger.warning("%s", damage)
        self.cut_count += 1
        self.cut_bytes += damage.size_bytes
        for base in reversed(survey.lost_segments):
            self._drop(Segment(self._context, self._directory, base, 0))
        if survey.segments:
            file = self._fs.open(f"{self._directory}/{offset_name(survey.segments[-1][0])}{LOG_SUFFIX}")
            try:
                file.truncate(survey.segments[-1][1])
            finally:
                file.close()

    def _correct_epochs(self, wrong: WrongRun) -> None:
        """Correct the epoch of batches with valid content where the batches around them show it, durably."""
        text = "Offsets %d to %d of %s had epoch %d between batches of epoch %d: corrected"
        logger.warning(text, wrong.offset, wrong.end_offset - 1, self._directory, wrong.found, wrong.epoch)
        for segment in self._files.starting_at(wrong.offset):
            file = self._fs.open(segment.log_path)
            try:
                for position, header in scan_headers(file, 0, segment.size):
                    if wrong.offset <= header.base_offset < wrong.end_offset:
                        file.pwritev([wrong.epoch.to_bytes(4, "big")], position + EPOCH_POSITION)
                file.fsync()
            finally:
                file.close()

    def _activate_last(self, now_ms: int) -> None:
        """Open the last segment for appending."""
        segment = self._files.segments[-1]
        builder = IndexBuilder(segment.base_offset, self._config.index_interval_bytes)
        position = 0
        for header, data in read_segment(self._fs, segment.log_path, segment.size):
            builder.add(position, header)
            self._files.recent.add(RecentBatch(header.base_offset, segment.base_offset, position, data))
            position += len(data)
        file = self._fs.open(segment.log_path)
        try:
            # A killed process leaves bytes that were never synced: sync them, since they are used from now on.
            file.fsync()
        finally:
            file.close()
        # So does its name.
        self._fs.fsync_dir(self._directory)
        segment.activate(builder.finish(), self._config, now_ms)

    def _maybe_roll(self, header: BatchHeader, now_ms: int) -> None:
        active = self._files.segments[-1]
        if active.size == 0:
            return
        too_large = active.size + header.size_in_bytes > self._settings.segment_bytes
        too_old = header.max_timestamp > active.roll_timestamp
        if too_large or too_old:
            self.roll(now_ms)

    def _add_segment(self, base_offset: int, now_ms: int) -> None:
        segment = Segment(self._context, self._directory, base_offset, 0)
        indexes = SegmentIndexes.empty(base_offset)
        segment.activate(indexes, self._config, now_ms)
        self._files.segments.append(segment)
        self._names_changed = True

    def _sync(self) -> None:
        self._files.segments[-1].handle().file.fsync()
        if self._names_changed:
            self._fs.fsync_dir(self._directory)
            self._names_changed = False
        if self._files.epochs.dirty:
            self._side_files.write_epochs(self._files.epochs)
        self._note.raise_to(self.end)

    def _lower_note(self, end: OffsetAndEpoch) -> None:
        """Lower the recorded end before the log is truncated, unless the log already lacks entries."""
        noted = self._note.end
        if noted is not None and end.recency < noted.recency <= self.end.recency:
            self._note.replace(end)

    def _end_before(self, end_offset: int) -> OffsetAndEpoch:
        """Return the end of the log once it is truncated to `end_offset`, or a lower one."""
        kept = self._files.epochs.lineage.before(end_offset)
        return OffsetAndEpoch(self.start_offset, kept.latest if kept.epochs else self._start_epoch)

    def _agrees(self, offset: int, epoch: int | None) -> bool:
        """Whether the last record before `offset` has this epoch, as far as the log still holds it."""
        return epoch is None or offset <= self.start_offset or self.epoch_at(offset - 1) == epoch

    def _drop(self, segment: Segment) -> None:
        """Remove the last segment; after a crash in a series of removals the log just ends later."""
        segment.close()
        self._remove_files(segment)
        self._fs.fsync_dir(self._directory)

    def _remove_files(self, segment: Segment) -> None:
        for path in [*segment.existing_paths(), segment.stem + SNAPSHOT_SUFFIX]:
            if self._fs.exists(path):
                self._fs.unlink(path)
