"""Snapshot files of producer state: `<offset>.snapshot`, version 1 of Kafka's ProducerSnapshot message.

    version int16 | crc uint32 (CRC-32C of what follows) | count int32 | entries:
    producerId int64 | epoch int16 | lastSequence int32 | lastOffset int64 | offsetDelta int32 | timestamp int64
    | coordinatorEpoch int32 | currentTxnFirstOffset int64

Only the last batch of a producer is stored. A torn file fails its checksum and is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from crabka.errors import CorruptDataError
from crabka.log.cuts import CutStats
from crabka.log.naming import SNAPSHOT_SUFFIX, file_offset, offset_name
from crabka.log.producer_state import BatchMark, ProducerEntry
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.ports import FileSystem

VERSION: Final = 1
_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    """Return the file bytes of these producers, in their order."""
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchMark(-1, -1, 0, -1)
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str = "") -> list[ProducerEntry]:
    """Read a snapshot file. Raises CorruptDataError when version, size or checksum is wrong."""
    if len(data) < _PREFIX.size + _COUNT.size:
        raise CorruptDataError(path, f"producer snapshot of {len(data)} bytes")
    version, crc = _PREFIX.unpack_from(data)
    body = memoryview(data)[_PREFIX.size :]
    if version != VERSION:
        raise CorruptDataError(path, f"unknown producer snapshot version {version}")
    if crc != crc32c(body):
        raise CorruptDataError(path, "producer snapshot does not match its checksum")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptDataError(path, f"producer snapshot of {count} entries has {len(data)} bytes")
    return [_entry(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_first = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.txn_first_offset = txn_first
    if last_offset >= 0:
        mark = BatchMark(last_sequence, last_offset, offset_delta, timestamp)
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
        """Delete snapshots without a segment, except the newest behind all segments, left by a clean stop."""
        newest_base = max(segment_bases)
        for offset in [o for o in self._offsets if o not in segment_bases and o != self._offsets[-1]]:
            self.remove(offset)
        if self._offsets and self.latest not in segment_bases and self.latest < newest_base:
            self.remove(self.latest)
