"""`crabka-durable-end`: what this replica of the metadata log made durable, and for which cluster.

A torn write is the end of the log that was never synced, so that no one counted on it. Rot is damage to what was. Both
look the same in the log; the note separates them. It lies beside the log, where Kafka ignores it.

Order of writes, which makes the note a lower bound of what is durable, whatever a power cut leaves of it:

- it goes up after a sync of the log, by an overwrite that is not synced itself (no second sync per append). A killed
  process leaves it exact; after a power cut it may be some seconds old;
- it goes down, synced, before the log is cut or restarted at another history;
- it stays where it is while the log lacks entries that it names, until a leader has brought them back.

The file has two slots, each in a sector of its own and with a checksum; the newer one that is whole counts, so that a
torn overwrite leaves the older. The cluster id is the one of the first run: `meta.properties` must not name another.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from crabka.kraft.log_view import OffsetAndEpoch

if TYPE_CHECKING:
    from crabka.ports import File, FileSystem

FILE_NAME = "crabka-durable-end"
SLOT_BYTES = 512
_SLOTS = 2


class NotedEnd(NamedTuple):
    """One slot of the file."""

    sequence: int
    end: OffsetAndEpoch
    cluster_id: str


class DurableEnd:
    """The note of one replica. Blocks; its owner makes one call at a time."""

    def __init__(self, fs: FileSystem, directory: str, cluster_id: str) -> None:
        self._fs = fs
        self._directory = directory
        self._cluster_id = cluster_id
        noted = read_durable_end(fs, directory)
        self._sequence = 0 if noted is None else noted.sequence
        self._end = None if noted is None else noted.end
        self._file: File | None = None

    @property
    def end(self) -> OffsetAndEpoch | None:
        """What the note names; None if there is none yet."""
        return self._end

    def raise_to(self, end: OffsetAndEpoch) -> None:
        """Note that everything before `end` is durable now; a lower end than the noted one changes nothing."""
        if self._end is None or end.recency > self._end.recency:
            self._write(end)

    def replace(self, end: OffsetAndEpoch) -> None:
        """Name another end, lower or not, durably on return."""
        self._write(end)
        self._open().fsync()

    def sync(self) -> None:
        """Make the note durable."""
        if self._file is not None:
            self._file.fsync()

    def mend(self) -> str:
        """Write the note anew from memory, durably, unless both slots are as they must be; return what was wrong."""
        if self._end is None:
            return ""
        path = f"{self._directory}/{FILE_NAME}"
        slots = _read_slots(self._fs, path)
        wanted = [self._sequence - 1, self._sequence] if self._sequence > 1 else [self._sequence]
        found = {noted.sequence: noted.end for noted in slots if noted is not None}
        if all(number in found for number in wanted) and found[self._sequence] == self._end:
            return ""
        if not self._fs.exists(path):
            self._file = None
        for _ in range(_SLOTS):
            self._write(self._end)
        self.sync()
        return f"{path} had {len(found)} of {_SLOTS} slots that can be read"

    def close(self) -> None:
        """Close the file, durably."""
        if self._file is not None:
            self._file.fsync()
            self._file.close()
            self._file = None

    def _write(self, end: OffsetAndEpoch) -> None:
        file = self._open()
        noted = NotedEnd(self._sequence + 1, end, self._cluster_id)
        file.pwritev([_render(noted)], (noted.sequence % _SLOTS) * SLOT_BYTES)
        self._sequence, self._end = noted.sequence, end

    def _open(self) -> File:
        if self._file is None:
            is_new = not self._fs.exists(f"{self._directory}/{FILE_NAME}")
            self._file = self._fs.open(f"{self._directory}/{FILE_NAME}", create=True)
            if is_new:
                # All of its bytes from the start, so that a full disk does not hinder the note.
                self._file.pwritev([b" " * (SLOT_BYTES * _SLOTS)], 0)
                self._file.fsync()
                self._fs.fsync_dir(self._directory)
        return self._file


def read_durable_end(fs: FileSystem, directory: str) -> NotedEnd | None:
    """Return what the note of a directory says, None if it has none that is whole."""
    path = f"{directory}/{FILE_NAME}"
    return max((slot for slot in _read_slots(fs, path) if slot is not None), default=None)


def _read_slots(fs: FileSystem, path: str) -> list[NotedEnd | None]:
    if not fs.exists(path):
        return []
    file = fs.open(path, read_only=True)
    try:
        return [_parse(bytes(file.pread(SLOT_BYTES, number * SLOT_BYTES))) for number in range(_SLOTS)]
    finally:
        file.close()


def _render(noted: NotedEnd) -> bytes:
    fields = {
        "version": 1,
        "sequence": noted.sequence,
        "offset": noted.end.offset,
        "epoch": noted.end.epoch,
        "clusterId": noted.cluster_id,
    }
    text = json.dumps(fields, separators=(",", ":")).encode()
    return (b"%08x %s" % (crc32c(text), text)).ljust(SLOT_BYTES - 1) + b"\n"


def _parse(slot: bytes) -> NotedEnd | None:
    checksum, _, text = slot.strip().partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        return None
    try:
        fields = json.loads(text)
        end = OffsetAndEpoch(int(fields["offset"]), int(fields["epoch"]))
        return NotedEnd(int(fields["sequence"]), end, str(fields["clusterId"]))
    except (ValueError, KeyError, TypeError):
        return None
