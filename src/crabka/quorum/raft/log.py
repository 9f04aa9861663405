"""The metadata log and its snapshots: the view of the consensus core, and the changes that it orders.

Everything here blocks. Appends only reach the page cache and run on the loop; truncation and the installation of a
snapshot are durable on return and belong in a thread while nothing else touches the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError, require
from crabka.kraft.actions import AppendControl, AppendRecords, ControlRecord, KRaftVersionChange, VotersChange
from crabka.kraft.events import LogAppended, LogTruncated, SnapshotInstalled, SnapshotRefused
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import LogRange, SnapshotRange
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import VoterSet
from crabka.quorum.loading import LoadedMetadata, metadata_of
from crabka.quorum.log.control_records import control_batch, control_records
from crabka.quorum.log.metadata_log import LogFlush
from crabka.quorum.log.survey import StoredBatch
from crabka.quorum.snapshots.files import PARTIAL_SUFFIX, SnapshotId, list_snapshots, read_snapshot
from crabka.records.errors import CorruptBatchError
from crabka.records.header import MAGIC_V2, BatchHeader, crc_valid, iter_headers

if TYPE_CHECKING:
    from crabka.ports import Buffer
    from crabka.quorum.storage import MetadataStorage

logger = logging.getLogger(__name__)


class RaftLog:
    """The log of one replica, as `LogView` and with the duties of its driver."""

    def __init__(self, storage: MetadataStorage) -> None:
        self._storage = storage
        self._log = storage.log
        # Sizes of the complete snapshots, oldest first.
        self._snapshots: dict[OffsetAndEpoch, int] = {}
        # Called with damage that a reader found.
        self.on_damage: Callable[[str], None] = lambda _reason: None
        self.refresh_snapshots()

    # -- view of the core ------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first offset of the log; in a pruned log the end of its oldest snapshot."""
        return self._start[0]

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, that of the snapshot in a log without records, else 0."""
        latest = self._log.last_epoch
        return latest if latest >= 0 else self._start[1]

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot that the log continues."""
        base = self._log.start_offset
        return next((snapshot for snapshot in self._snapshots if snapshot.offset >= base), None)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        return next(reversed(self._snapshots), None)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch of the log not above `epoch`, and its end offset."""
        start, start_epoch = self._start
        found = self._log.epoch_end(epoch)
        if found is None or found[1] <= start:
            return OffsetAndEpoch(start, start_epoch)
        return OffsetAndEpoch(found[1], found[0])

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        """Return the bytes of a snapshot, None if there is none of this id."""
        return self._snapshots.get(snapshot)

    @property
    def _start(self) -> tuple[int, int]:
        if self._log.start_offset == 0:
            return 0, 0
        earliest = self.earliest_snapshot
        require(earliest is not None, f"the log starts at {self._log.start_offset} and no snapshot covers that")
        return earliest or (0, 0)

    # -- changes ordered by the core --------------------------------------------------------------------------

    def append_control(self, action: AppendControl, now_ms: int) -> LogAppended:
        """Append the control records of a leader."""
        require(action.base_offset == self.end_offset, f"the log ends at {self.end_offset}, not {action.base_offset}")
        batch = control_batch(action.records, epoch=action.epoch, base_offset=action.base_offset, now_ms=now_ms)
        return self.append_batches([batch], now_ms)

    def append_batches(self, batches: list[bytes], now_ms: int) -> LogAppended:
        """Append valid batches at the log end, and return their control records."""
        control: list[tuple[int, ControlRecord]] = []
        for batch in batches:
            for _, header in iter_headers(batch):
                control += control_records(StoredBatch(header, batch))
        self._log.write(batches, now_ms)
        return LogAppended(self.end_offset, tuple(control))

    def append_fetched(self, action: AppendRecords, now_ms: int) -> LogAppended:
        """Append the leader's batches, up to the first invalid one."""
        require(isinstance(action.records, bytes), "fetched records are bytes")
        require(action.base_offset == self.end_offset, f"the log ends at {self.end_offset}, not {action.base_offset}")
        data: bytes = action.records  # type: ignore[assignment] # checked above
        batches, fault = _fit_batches(data, action.base_offset, epochs=(self.last_epoch, action.epoch))
        try:
            appended = self.append_batches(batches, now_ms) if batches else None
        except CorruptBatchError as error:
            # A malformed control record; nothing was written.
            appended, fault = None, str(error)
        if fault:
            logger.warning("Fetched metadata from offset %d on is left out: %s", self.end_offset, fault)
        return appended or LogAppended(self.end_offset, refused=True)

    @property
    def durable_end(self) -> OffsetAndEpoch | None:
        """The recorded durable end, up to which this replica may have acknowledged."""
        return self._log.durable_end

    @property
    def cuts(self) -> tuple[int, int]:
        """How many times, and how many bytes, opening cut off the log."""
        return self._log.cut_count, self._log.cut_bytes

    def settle(self) -> None:
        """A leader restored the lost entries: record the current end as durable, durably on return."""
        self._log.settle()

    def truncate(self, end_offset: int, now_ms: int) -> LogTruncated:
        """Truncate the log, durably."""
        return LogTruncated(self._log.truncate(end_offset, now_ms))

    def begin_flush(self) -> LogFlush:
        """Return the sync that makes everything appended so far durable."""
        return self._log.begin_flush()

    def read(self, wanted: LogRange) -> bytes:
        """Return the batches of a range. Raises CorruptDataError if its first batch is damaged."""
        return self._log.read_slice(wanted.offset, wanted.max_bytes)

    def serve(self, wanted: LogRange) -> bytes | None:
        """Return the batches of a fetch response; None, and a report, if they are damaged."""
        try:
            return self.read(wanted)
        except CorruptDataError as error:
            self.on_damage(str(error))
            return None

    def read_snapshot(self, wanted: SnapshotRange) -> bytes | None:
        """Return a piece of a snapshot, None if it was removed meanwhile."""
        try:
            file = self._storage.fs.open(self._path(wanted.snapshot), read_only=True)
        except FileNotFoundError:
            return None
        try:
            return file.pread(max(0, min(wanted.max_bytes, file.size() - wanted.position)), wanted.position)
        finally:
            file.close()

    def write_chunk(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Write a piece of a fetched snapshot; position 0 starts over."""
        file = self._storage.fs.open(self._partial_path(snapshot), create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.pwritev([data], position)
        finally:
            file.close()

    def install(self, snapshot: OffsetAndEpoch, now_ms: int) -> SnapshotInstalled | SnapshotRefused:
        """Verify a fetched snapshot, rename it, restart the log after it and load its content."""
        fs, partial = self._storage.fs, self._partial_path(snapshot)
        try:
            content = read_snapshot(fs, partial, snapshot.epoch)
            loaded = metadata_of(SnapshotId(*snapshot), content)
        except CorruptDataError as error:
            fs.unlink(partial)
            return SnapshotRefused(snapshot, str(error))
        file = fs.open(partial)
        try:
            file.fsync()
        finally:
            file.close()
        fs.rename(partial, self._path(snapshot))
        fs.fsync_dir(self._storage.directory)
        self._log.restart_at(snapshot, now_ms)
        self._storage.loaded = loaded
        self._storage.loaded.replay.publish()
        self.refresh_snapshots()
        return SnapshotInstalled(snapshot, VoterSet(content.voters), content.kraft_version)

    def refresh_snapshots(self) -> None:
        """List the snapshots again."""
        fs, directory = self._storage.fs, self._storage.directory
        self._snapshots = {
            OffsetAndEpoch(*snapshot): fs.stat(f"{directory}/{snapshot.file_name}").size_bytes
            for snapshot in list_snapshots(fs, directory)
        }

    def history(self, config_voters: VoterSet) -> VoterHistory:
        """Read the voters from snapshot and log; without any there, those of the config count."""
        first = 0 if self.latest_snapshot is None else self.latest_snapshot.offset
        return voter_history(self._storage.loaded, self._log.read(first), config_voters)

    def _path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._storage.directory}/{SnapshotId(*snapshot).file_name}"

    def _partial_path(self, snapshot: OffsetAndEpoch) -> str:
        # A name different from that of a snapshot that this node writes itself.
        return f"{self._storage.directory}/fetched-{snapshot.offset}-{snapshot.epoch}{PARTIAL_SUFFIX}"


def voter_history(loaded: LoadedMetadata, batches: Iterable[StoredBatch], config_voters: VoterSet) -> VoterHistory:
    """Return the voters in a snapshot and in the batches after it."""
    newest = None if loaded.snapshot is None else OffsetAndEpoch(*loaded.snapshot)
    voters = VoterSet(loaded.voters) if loaded.kraft_version > 0 else config_voters
    history = VoterHistory(voters, loaded.kraft_version, newest)
    first = 0 if newest is None else newest.offset
    for batch in batches:
        for offset, record in control_records(batch):
            if offset >= first and isinstance(record, VotersChange):
                history.add_voters(offset, record.voters)
            elif offset >= first and isinstance(record, KRaftVersionChange):
                history.add_kraft_version(offset, record.level)
    return history


def _fit_batches(data: bytes, base_offset: int, *, epochs: tuple[int, int]) -> tuple[list[bytes], str]:
    """Return the fetched batches that may be appended, and the fault of the next one, if any."""
    batches: list[bytes] = []
    expected, (epoch, highest) = base_offset, epochs
    try:
        for position, header in iter_headers(data):
            fault = _fault(data, position, header, expected=expected, epochs=(epoch, highest))
            if fault:
                return batches, fault
            batches.append(data[position : position + header.size_in_bytes])
            expected, epoch = header.next_offset, header.partition_leader_epoch
    except CorruptBatchError as error:
        return batches, str(error)
    return batches, ""


def _fault(data: Buffer, position: int, header: BatchHeader, *, expected: int, epochs: tuple[int, int]) -> str:
    """Return the fault of a fetched batch, "" if it may be appended."""
    if header.magic != MAGIC_V2 or not crc_valid(data, position, header):
        return "wrong checksum"
    if header.base_offset != expected or header.last_offset < expected:
        return f"offset {header.base_offset} instead of {expected}"
    low, high = epochs
    if not low <= header.partition_leader_epoch <= high:
        return f"epoch {header.partition_leader_epoch} is not within {low} to {high}"
    return ""
