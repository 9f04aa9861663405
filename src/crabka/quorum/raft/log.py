"""The metadata log and its snapshots as the consensus core sees them, and what the core wants done to them.

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

LOGGER = logging.getLogger(__name__)


class RaftLog:
    """The log of one replica, as `LogView` and with the duties of its driver."""

    def __init__(self, storage: MetadataStorage) -> None:
        self._storage = storage
        self._log = storage.log
        # Sizes of the complete snapshots, oldest first.
        self._snapshots: dict[OffsetAndEpoch, int] = {}
        # Called with what a reader met.
        self.on_damage: Callable[[str], None] = lambda _reason: None
        self.refresh_snapshots()

    # -- what the core sees ----------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds; in a pruned log that is where its oldest snapshot ends."""
        return self._start[0]

    @property
    def end_offset(self) -> int:
        """The offset behind the last record."""
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
        """Return the largest epoch not above `epoch` that the log knows, and where it ends."""
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

    # -- what the core wants ---------------------------------------------------------------------------------

    def append_control(self, action: AppendControl, now_ms: int) -> LogAppended:
        """Append the control records of a leader."""
        require(action.base_offset == self.end_offset, f"the log ends at {self.end_offset}, not {action.base_offset}")
        batch = control_batch(action.records, epoch=action.epoch, base_offset=action.base_offset, now_ms=now_ms)
        return self.append_batches([batch], now_ms)

    def append_batches(self, batches: list[bytes], now_ms: int) -> LogAppended:
        """Append whole batches that follow the log end, and tell their control records."""
        control: list[tuple[int, ControlRecord]] = []
        for batch in batches:
            for _, header in iter_headers(batch):
                control += control_records(StoredBatch(header, batch))
        self._log.write(batches, now_ms)
        return LogAppended(self.end_offset, tuple(control))

    def append_fetched(self, action: AppendRecords, now_ms: int) -> LogAppended:
        """Append what the leader sent, up to the first batch that is not what it should be."""
        require(isinstance(action.records, bytes), "fetched records are bytes")
        require(action.base_offset == self.end_offset, f"the log ends at {self.end_offset}, not {action.base_offset}")
        data: bytes = action.records  # type: ignore[assignment] # checked above
        batches, fault = _fit_batches(data, action.base_offset, epochs=(self.last_epoch, action.epoch))
        try:
            appended = self.append_batches(batches, now_ms) if batches else None
        except CorruptBatchError as error:
            # A control record that cannot be read; nothing was written.
            appended, fault = None, str(error)
        if fault:
            LOGGER.warning("Fetched metadata from offset %d on is left out: %s", self.end_offset, fault)
        return appended or LogAppended(self.end_offset, refused=True)

    @property
    def durable_end(self) -> OffsetAndEpoch | None:
        """What this replica made durable before, and may have acknowledged."""
        return self._log.durable_end

    @property
    def cuts(self) -> tuple[int, int]:
        """How many times, and how many bytes, opening cut off the log."""
        return self._log.cut_count, self._log.cut_bytes

    def settle(self) -> None:
        """A leader brought back what was lost: the log as it is counts, durably on return."""
        self._log.settle()

    def truncate(self, end_offset: int, now_ms: int) -> LogTruncated:
        """Cut the log, durably."""
        return LogTruncated(self._log.truncate(end_offset, now_ms))

    def begin_flush(self) -> LogFlush:
        """Return what makes everything appended so far durable."""
        return self._log.begin_flush()

    def read(self, wanted: LogRange) -> bytes:
        """Return the batches of a range. Raises CorruptDataError if its first batch is damaged."""
        return self._log.read_slice(wanted.offset, wanted.max_bytes)

    def serve(self, wanted: LogRange) -> bytes | None:
        """Return the batches of a fetch response, None if they are damaged, which is reported."""
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
        """Write a piece of a snapshot that is being fetched; position 0 starts over."""
        file = self._storage.fs.open(self._partial_path(snapshot), create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.pwritev([data], position)
        finally:
            file.close()

    def install(self, snapshot: OffsetAndEpoch, now_ms: int) -> SnapshotInstalled | SnapshotRefused:
        """Check a fetched snapshot, keep it under its name, restart the log behind it and load its content."""
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
        """Look again which snapshots there are."""
        fs, directory = self._storage.fs, self._storage.directory
        self._snapshots = {
            OffsetAndEpoch(*snapshot): fs.stat(f"{directory}/{snapshot.file_name}").size_bytes
            for snapshot in list_snapshots(fs, directory)
        }

    def history(self, config_voters: VoterSet) -> VoterHistory:
        """Read the voters back from snapshot and log; those of the config count where neither names any."""
        first = 0 if self.latest_snapshot is None else self.latest_snapshot.offset
        return voter_history(self._storage.loaded, self._log.read(first), config_voters)

    def _path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._storage.directory}/{SnapshotId(*snapshot).file_name}"

    def _partial_path(self, snapshot: OffsetAndEpoch) -> str:
        # Apart from the partial file of a snapshot that this node writes itself.
        return f"{self._storage.directory}/fetched-{snapshot.offset}-{snapshot.epoch}{PARTIAL_SUFFIX}"


def voter_history(loaded: LoadedMetadata, batches: Iterable[StoredBatch], config_voters: VoterSet) -> VoterHistory:
    """Return the voters that a snapshot and the batches of a log name, from the snapshot's end on."""
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
    """Return the fetched batches that may be appended, and what is wrong with the one that follows them, if any."""
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
    """Return what is wrong with a fetched batch, nothing if it may be appended."""
    if header.magic != MAGIC_V2 or not crc_valid(data, position, header):
        return "wrong checksum"
    if header.base_offset != expected or header.last_offset < expected:
        return f"offset {header.base_offset} instead of {expected}"
    low, high = epochs
    if not low <= header.partition_leader_epoch <= high:
        return f"epoch {header.partition_leader_epoch} is not within {low} to {high}"
    return ""
