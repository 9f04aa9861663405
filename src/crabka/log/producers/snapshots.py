"""The snapshot files of a log, and producer state to and from them. The format is in `formats.producer_snapshot`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.file_names import SNAPSHOT_SUFFIX, file_offset, offset_name
from crabka.formats.producer_snapshot import ProducerRow, decode_producers, encode_producers
from crabka.log.producers.producer_state import BatchMark, ProducerEntry
from crabka.log.recovery.cuts import CutStats
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.ports import Buffer, FileSystem

_NO_BATCH = BatchMark(-1, -1, 0, -1)


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    """Return the file bytes of these producers, in their order."""
    return encode_producers([_row(entry) for entry in entries])


def decode_snapshot(data: Buffer, path: str = "") -> list[ProducerEntry]:
    """Read a snapshot file. Raises CorruptDataError when version, size or checksum is wrong."""
    return [_entry(row) for row in decode_producers(data, path)]


def _row(entry: ProducerEntry) -> ProducerRow:
    last = entry.batches[-1] if entry.batches else _NO_BATCH
    return ProducerRow(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=last.last_sequence,
        last_offset=last.last_offset,
        offset_delta=last.offset_delta,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        txn_first_offset=entry.txn_first_offset,
    )


def _entry(row: ProducerRow) -> ProducerEntry:
    entry = ProducerEntry(row.producer_id, row.producer_epoch)
    entry.last_timestamp = row.last_timestamp
    entry.coordinator_epoch = row.coordinator_epoch
    entry.txn_first_offset = row.txn_first_offset
    if row.last_offset >= 0:
        mark = BatchMark(row.last_sequence, row.last_offset, row.offset_delta, row.last_timestamp)
        entry.batches.append(mark)
        entry.chain_first_sequence = mark.first_sequence
    return entry


class ProducerSnapshots:
    """The snapshot files of one log directory."""

    __slots__ = ("_cuts", "_directory", "_fs", "_offsets")

    def __init__(self, fs: FileSystem, directory: str, names: Iterable[str], cuts: CutStats | None = None) -> None:
        self._fs = fs
        self._cuts = cuts or CutStats()
        self._directory = directory
        found = (file_offset(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self._offsets = sorted(offset for offset in found if offset is not None)

    @property
    def offsets(self) -> list[int]:
        """The offsets that have a snapshot, rising."""
        return list(self._offsets)

    @property
    def latest(self) -> int:
        """The largest offset that has a snapshot, -1 if none has."""
        return self._offsets[-1] if self._offsets else -1

    def path(self, offset: int) -> str:
        """Return the path of the snapshot at an offset."""
        return f"{self._directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def move(self, directory: str) -> None:
        """Follow a rename of the log directory."""
        self._directory = directory

    def write(self, offset: int, entries: Collection[ProducerEntry]) -> str:
        """Write a snapshot into the page cache; the caller makes it durable. Return its path."""
        path = self.path(offset)
        file = self._fs.open(path, create=True)
        try:
            file.truncate(0)
            file.pwritev([encode_snapshot(entries)], 0)
        finally:
            file.close()
        self._note(offset)
        return path

    def install(self, offset: int, data: bytes) -> None:
        """Write a snapshot that came from elsewhere, durably."""
        write_atomic(self._fs, self.path(offset), data)
        self._note(offset)

    def _note(self, offset: int) -> None:
        if offset not in self._offsets:
            self._offsets.append(offset)
            self._offsets.sort()

    def read_latest(self, lowest: int, highest: int) -> tuple[int, list[ProducerEntry]] | None:
        """Return offset and content of the newest readable snapshot in [lowest, highest]; bad ones are removed."""
        for offset in reversed([o for o in self._offsets if lowest <= o <= highest]):
            try:
                return offset, self.read(offset)
            except (CorruptDataError, FileNotFoundError) as error:
                self._cuts.note_rebuilt(self.path(offset), error)
                self.remove(offset)
        return None

    def peek_latest(self, lowest: int, highest: int) -> tuple[int, list[ProducerEntry]] | None:
        """Return offset and content of the newest readable snapshot in [lowest, highest]; removes nothing."""
        for offset in reversed([o for o in self._offsets if lowest <= o <= highest]):
            try:
                return offset, self.read(offset)
            except (CorruptDataError, FileNotFoundError):
                continue
        return None

    def read(self, offset: int) -> list[ProducerEntry]:
        """Return the content of one snapshot. Raises CorruptDataError and FileNotFoundError."""
        path = self.path(offset)
        return decode_snapshot(read_file(self._fs, path), path)

    def remove(self, offset: int) -> None:
        """Delete one snapshot file; a missing one is fine."""
        if offset in self._offsets:
            self._offsets.remove(offset)
            path = self.path(offset)
            if self._fs.exists(path):
                self._fs.unlink(path)

    def remove_outside(self, lowest: int, highest: int) -> None:
        """Delete the snapshots outside [lowest, highest]."""
        for offset in [o for o in self._offsets if not lowest <= o <= highest]:
            self.remove(offset)

    def remove_strays(self, segment_bases: Collection[int]) -> None:
        """Delete snapshots without a segment, except the newest after all segments, left by a clean stop."""
        newest_base = max(segment_bases)
        for offset in [o for o in self._offsets if o not in segment_bases and o != self._offsets[-1]]:
            self.remove(offset)
        if self._offsets and self.latest not in segment_bases and self.latest < newest_base:
            self.remove(self.latest)
