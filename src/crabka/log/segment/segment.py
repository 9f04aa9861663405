"""One segment of a log: the `.log` file with its offset, time and transaction index.

Owns the files of the segment and the positions in them. It does not know validation, producers or the content of
other segments. The active segment keeps its indexes in memory and writes them when it is sealed or closed:
after a crash they are rebuilt from the batches anyway. Sealed segments load theirs on demand, into a bounded cache.
An active segment that is idle and durable may close its file; `open_segments` says when and why only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError
from crabka.formats.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from crabka.formats.time_index import TimeIndexEntry
from crabka.log.segment.aborted_index import AbortedIndex
from crabka.log.segment.caches import Handle
from crabka.log.segment.indexes import (
    IndexBuilder,
    SegmentIndexes,
    are_index_files_whole,
    load_index_files,
    write_index_files,
)
from crabka.log.segment.scan import scan_headers
from crabka.records.header import NO_TIMESTAMP, BatchHeader

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.formats.transaction_index import AbortedTransaction, IndexNote
    from crabka.log.segment.context import SegmentContext
    from crabka.ports import Buffer

NEVER: Final = 1 << 63


class Segment:
    """A run of batches in one file. `size` is the end of the last whole batch."""

    __slots__ = (
        "_bytes_since_entry",
        "_context",
        "_directory",
        "_durable_size",
        "_handle",
        "_indexes",
        "_last_offset",
        "_persisted",
        "_pinned",
        "_roll_wait_ms",
        "_was_read",
        "aborts",
        "base_offset",
        "created_ms",
        "full",
        "index_interval_bytes",
        "max_index_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_at_ms",
        "roll_timestamp",
        "size",
    )

    def __init__(self, context: SegmentContext, directory: str, base_offset: int, size: int) -> None:
        self._context = context
        self._directory = directory
        self.base_offset = base_offset
        self.size = size
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.created_ms = 0
        # The segment rolls when a batch has a larger timestamp than this ...
        self.roll_timestamp = NEVER
        # ... or, if its first batch has no timestamp, after this time. An empty segment never rolls by time.
        self.roll_at_ms = NEVER
        self._roll_wait_ms = NEVER
        # An index has no room for another entry.
        self.full = False
        self.index_interval_bytes = 4096
        self.max_index_bytes = 10 * 1024 * 1024
        self._bytes_since_entry = 0
        # Of an active segment: None while it is idle. Bytes that are not durable have an open file.
        self._handle: Handle | None = None
        # How much of an active segment is known to be durable; -1 if that is not known.
        self._durable_size = -1
        # An active segment was read since the last call of `was_used`.
        self._was_read = False
        # An active segment has them, and no other.
        self._indexes: SegmentIndexes | None = None
        # Index entries that the files hold already.
        self._persisted = (0, 0)
        self.aborts = AbortedIndex(context, directory, base_offset)
        # The file and indexes of a segment whose name belongs to another one now.
        self._pinned: tuple[Handle, SegmentIndexes] | None = None
        # Known after the first call of `last_offset` on a sealed segment.
        self._last_offset: int | None = None

    # -- files -----------------------------------------------------------------------------------------------

    @property
    def stem(self) -> str:
        """Path of the segment's files without their suffix."""
        return f"{self._directory}/{offset_name(self.base_offset)}"

    @property
    def log_path(self) -> str:
        """Path of the `.log` file."""
        return self.stem + LOG_SUFFIX

    def paths(self) -> list[str]:
        """Return the paths of all files that the segment may have."""
        stem = self.stem
        return [stem + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]

    def existing_paths(self) -> list[str]:
        """Return the paths of the files that the segment has."""
        return [path for path in self.paths() if self._context.fs.exists(path)]

    def handle(self) -> Handle:
        """Return the open log file; a sealed or idle segment opens it on demand. Raises OSError."""
        if self._indexes is not None:
            self._was_read = True
            return self._handle or self._reopen()
        if self._pinned is not None:
            return self._pinned[0]
        return self._context.handles.get(self.log_path, self._open_read_only)

    # -- the descriptor of an active segment -----------------------------------------------------------------

    @property
    def open_handle(self) -> Handle | None:
        """The open file of an active segment, None if it is idle: then all of it is durable."""
        return self._handle

    @property
    def has_descriptor(self) -> bool:
        """Whether an active segment has its file open."""
        return self._handle is not None

    @property
    def is_durable(self) -> bool:
        """Whether all bytes of an active segment are known to have reached the disk."""
        return self._durable_size == self.size

    def was_used(self, seen_size: int) -> bool:
        """Return whether an active segment was read since the last call, or has another size than it had then."""
        was_read, self._was_read = self._was_read, False
        return was_read or self.size != seen_size

    def note_durable(self) -> None:
        """Note that a stop or a truncation has made all bytes durable."""
        self._durable_size = self.size

    def note_synced(self, handle: Handle, size: int) -> None:
        """Note that the file was synced when it had `size` bytes; if it still has, it is closed."""
        if self._handle is handle and self.size >= size:
            self._durable_size = size
            if self.size == size:
                self.rest()

    def rest(self) -> None:
        """Close the file of an active segment if all its bytes are durable. Readers keep their handles."""
        if self._handle is not None and self._durable_size == self.size:
            self._handle = None
            self._context.open_segments.discard(self)

    def sync_and_rest(self) -> None:
        """Make the bytes of an active segment durable and close its file. Waits for the disk; raises OSError."""
        handle = self._handle
        if handle is not None:
            size = self.size
            if not self.is_durable:
                handle.file.fsync()
            self.note_synced(handle, size)

    def _reopen(self) -> Handle:
        self._context.open_segments.make_room()
        handle = self._handle = Handle(self._context.fs.open(self.log_path))
        self._context.open_segments.add(self)
        return handle

    def _deactivate(self) -> None:
        """Be no longer active."""
        self._context.open_segments.discard(self)
        self._indexes = self._handle = None

    # -- names -----------------------------------------------------------------------------------------------

    def pin(self) -> None:
        """Keep file and indexes for readers: the name is about to belong to another segment."""
        self.aborted()
        self._pinned = (self.handle(), self.indexes())

    def move(self, directory: str) -> None:
        """Follow a rename of the log directory."""
        self.forget_cached()
        self._directory = self.aborts.directory = directory

    def rehome(self, directory: str, active: Handle | None = None) -> None:
        """Continue in another directory that holds the same bytes; `active` is the file there that appends go to.

        The index files of an active segment are rewritten from those in memory.
        """
        self.move(directory)
        if active is not None:
            self._handle = active
            self._context.open_segments.add(self)
            self._durable_size = -1
            self._persisted = (0, 0)

    def _open_read_only(self, path: str) -> Handle:
        return Handle(self._context.fs.open(path, read_only=True))

    def forget_cached(self) -> None:
        """Drop the open file and the indexes that are cached for the segment's name."""
        self._context.handles.forget(self.log_path)
        self._context.indexes.forget(self.log_path)

    # -- becoming active and sealed --------------------------------------------------------------------------

    def activate(self, indexes: SegmentIndexes, config: TopicConfig, now_ms: int) -> None:
        """Open for appending, with indexes that match the file. The file is created if it is not there."""
        self.forget_cached()
        self._handle = Handle(self._context.fs.open(self.log_path, create=True))
        self._context.open_segments.add(self)
        self._durable_size = -1 if self.size else 0
        self._indexes = indexes
        # Entries already in the files are written again: the files may be padded, or of another length.
        self._persisted = (0, 0)
        self._bytes_since_entry = 0
        self._last_offset = None
        self.created_ms = now_ms
        self.configure(config)
        self.read_max_timestamp()

    def configure(self, config: TopicConfig) -> None:
        """Use the settings of the topic that appends need."""
        self.index_interval_bytes = config.index_interval_bytes
        self.max_index_bytes = config.effective_segment_index_bytes
        self.full = self.indexes().is_full(self.max_index_bytes)
        jitter_ms, rng = min(config.segment_jitter_ms, config.effective_segment_ms), self._context.rng
        self._roll_wait_ms = config.effective_segment_ms - (rng.randrange(jitter_ms) if jitter_ms > 0 and rng else 0)
        for _, header in self.headers():
            self._start_roll_wait(header.max_timestamp)
            break

    def _start_roll_wait(self, first_timestamp: int) -> None:
        # Kafka compares later timestamps with that of the first batch; without one it uses the clock.
        if first_timestamp >= 0:
            self.roll_timestamp = first_timestamp + self._roll_wait_ms
        else:
            self.roll_at_ms = self.created_ms + self._roll_wait_ms

    def seal(self) -> None:
        """Write the indexes and keep the file only in the cache from now on."""
        self.persist_indexes(final=True)
        indexes, handle = self._indexes, self._handle
        self.aborts.expect(self.noted)
        if indexes is not None:
            self._context.indexes.put(self.log_path, indexes)
        if handle is not None:
            self._context.handles.put(self.log_path, handle)
        self._deactivate()

    @property
    def is_active(self) -> bool:
        """True if the segment takes appends."""
        return self._indexes is not None

    def close(self) -> None:
        """Close the files and drop the indexes without writing anything."""
        self.forget_cached()
        self._deactivate()

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer] | None, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end, unless it is there already (None). On OSError the segment is as before."""
        position = self.size
        handle, indexes = self._handle, self._indexes
        if indexes is None:
            raise CorruptDataError(self.log_path, "append to a sealed segment")
        if handle is None:
            handle = self._reopen()
        if buffers is not None:
            handle.file.pwritev(buffers, position)
        self.size = position + size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self._start_roll_wait(max_timestamp)
        if self._bytes_since_entry > self.index_interval_bytes:
            indexes.offsets.append(last_offset, position)
            indexes.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.full = indexes.is_full(self.max_index_bytes)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    # -- indexes ---------------------------------------------------------------------------------------------

    def indexes(self) -> SegmentIndexes:
        """Return the offset and time index; missing or damaged files are rebuilt from the batches."""
        if self._indexes is not None:
            return self._indexes
        if self._pinned is not None:
            return self._pinned[1]
        return self._context.indexes.get(self.log_path, lambda _path: self.load_indexes())

    def load_indexes(self) -> SegmentIndexes:
        """Read both index files, or rebuild them from the batches if they are missing or cannot be right."""
        if not self.size:
            return self.empty_indexes()
        try:
            found = load_index_files(self._context.fs, self.stem, self.base_offset, self.size)
        except (FileNotFoundError, CorruptDataError) as error:
            self._context.cuts.note_rebuilt(self.stem + INDEX_SUFFIX, error)
            found = None
        return self.rebuild_indexes() if found is None else found

    def rebuild_indexes(self) -> SegmentIndexes:
        """Build both indexes from the batch headers and write their files."""
        builder = IndexBuilder(self.base_offset, self.index_interval_bytes)
        for position, header in self.headers():
            builder.add(position, header)
        indexes = builder.finish()
        self.write_indexes(indexes)
        return indexes

    def write_indexes(self, indexes: SegmentIndexes) -> None:
        """Replace both index files."""
        write_index_files(self._context.fs, self.stem, indexes)

    def persist_indexes(self, *, final: bool = False) -> None:
        """Write the entries that the files lack; `final` first adds the largest timestamp, as at a roll or close."""
        indexes = self._indexes
        if indexes is None:
            return
        if final:
            indexes.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self._persisted = write_index_files(self._context.fs, self.stem, indexes, self._persisted)

    def aborted(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers are in this segment. Raises CorruptDataError."""
        return self.aborts.entries()

    @property
    def noted(self) -> IndexNote | None:
        """Size and checksum of the transaction index, None if they are not known."""
        return self.aborts.noted(is_active=self._indexes is not None)

    def forget_aborted(self) -> None:
        """Read the transaction index of a sealed segment from its file when it is needed next."""
        if self._indexes is None and self._pinned is None:
            self.aborts.forget()

    # -- looking inside --------------------------------------------------------------------------------------

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of the batches from `position`, the start of a batch, on."""
        handle = self._scan_handle()
        yield from scan_headers(handle.file, position, self.size)

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """Return the bytes of one batch."""
        handle = self._scan_handle()
        return handle.file.pread(header.size_in_bytes, position)

    def _scan_handle(self) -> Handle:
        # Scans run in threads as well, where the segment may be sealed meanwhile: the handle must be their own.
        if self._pinned is not None:
            return self._pinned[0]
        return self._handle or self._open_read_only(self.log_path)

    def ensure_index_files(self) -> None:
        """Make the index files of a sealed segment hold all its entries and nothing else. May wait for the disk."""
        indexes = self.indexes()
        if not are_index_files_whole(self._context.fs, self.stem, indexes):
            self.write_indexes(indexes)

    def read_max_timestamp(self) -> TimeIndexEntry:
        """Return the largest timestamp and the last offset of the batch that has it, from the time index."""
        if self.max_timestamp == NO_TIMESTAMP and self.size:
            self.max_timestamp, self.max_timestamp_offset = self.indexes().times.last
        return TimeIndexEntry(self.max_timestamp, self.max_timestamp_offset)

    def largest_timestamp(self) -> int:
        """Return the time for retention: the largest timestamp, else when the file was last changed."""
        timestamp = self.read_max_timestamp().timestamp
        return timestamp if timestamp >= 0 else self._context.fs.stat(self.log_path).modified_ms

    def last_offset(self) -> int:
        """Return the last offset in a sealed segment; one less than the base offset if it is empty.

        Compaction may have removed the last batches, so it does not follow from the next segment's base offset.
        """
        if self._last_offset is None:
            self._last_offset = self.base_offset - 1
            for _, header in self.headers(self.indexes().offsets.last_position):
                self._last_offset = header.last_offset
        return self._last_offset

    def reaches(self, offset: int) -> bool:
        """Return whether a sealed segment has a batch that ends at or after `offset`."""
        # Only after the last index entry must the batches be read.
        return self.size > 0 and (offset <= self.indexes().offsets.last_offset or offset <= self.last_offset())

    def position_of(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch that ends at or after `offset`, None if there is none."""
        for position, header in self.headers(self.indexes().offsets.floor_position(offset)):
            if header.last_offset >= offset:
                return position, header
        return None

    # -- truncation and deletion ---------------------------------------------------------------------------

    def truncate(self, end_offset: int) -> int:
        """Cut the active segment before the first batch that reaches `end_offset`, and its indexes with it.

        Returns the new end of the segment: lower than `end_offset` if that lay inside a batch.
        """
        found = self.position_of(end_offset)
        if found is None or self._indexes is None:
            return end_offset
        end_offset = min(end_offset, found[1].base_offset)
        file = self.handle().file
        file.truncate(found[0])
        file.fsync()
        self.size = found[0]
        self.note_durable()
        if not self.size:
            self.roll_timestamp = self.roll_at_ms = NEVER
        self._indexes.offsets.truncate(end_offset)
        self._indexes.times.truncate(end_offset)
        self._persisted = (0, 0)
        self._bytes_since_entry = 0
        self.aborts.truncate(end_offset)
        self.max_timestamp, self.max_timestamp_offset = self._indexes.times.last
        for _, header in self.headers(self._indexes.offsets.last_position):
            # Batches after the last entry are in no index.
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        return end_offset

    def empty_indexes(self) -> SegmentIndexes:
        """Return indexes without entries."""
        return SegmentIndexes.empty(self.base_offset)

    def delete_now(self) -> None:
        """Remove the files of a segment that has no readers."""
        for path in self.existing_paths():
            self._context.fs.unlink(path)
        self._deactivate()

    def delete_later(self, due_ms: int) -> None:
        """Rename the files to `.deleted` and schedule their removal."""
        for path in self.existing_paths():
            self._context.fs.rename(path, path + DELETED_SUFFIX)
            self._context.schedule_deletion(path + DELETED_SUFFIX, due_ms)
        self.forget_cached()
        self._deactivate()
