"""`crabka-durable-end`: what this replica of the metadata log made durable, and for which cluster.

A torn write is at the end of the log, which was never synced, so no other node relies on it. Rot is damage to synced
data. Both look the same in the log; this file separates them. It is next to the log, where Kafka ignores it.

The order of writes makes it a lower bound of what is durable, also after a power cut:

- it rises after a sync of the log, by an overwrite that is not synced itself (no second sync per append). It is exact
  after a killed process, and may be some seconds old after a power cut;
- it falls, synced, before the log is truncated or restarted after a snapshot;
- it does not change while the log lacks entries that it covers, until a leader has restored them.

The file has two slots, each in a sector of its own and with a checksum; the newer valid one counts, so a torn overwrite
leaves the older one. The cluster id is that of the first run: `meta.properties` must have the same one.
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
    """The file of one replica. Blocks; its owner makes one call at a time."""

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
        """The durable end in the file; None if there is none yet."""
        return self._end

    def raise_to(self, end: OffsetAndEpoch) -> None:
        """Record that everything before `end` is durable; a lower end than the recorded one changes nothing."""
        if self._end is None or end.recency > self._end.recency:
            self._write(end)

    def replace(self, end: OffsetAndEpoch) -> None:
        """Record another end, lower or not, durably on return."""
        self._write(end)
        self._open().fsync()

    def sync(self) -> None:
        """Make the file durable."""
        if self._file is not None:
            self._file.fsync()

    def mend(self) -> str:
        """Rewrite the file from memory, durably, unless both slots are valid; return the fault."""
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
                # Allocate all of its bytes at once, so that later writes do not fail on a full disk.
                self._file.pwritev([b" " * (SLOT_BYTES * _SLOTS)], 0)
                self._file.fsync()
                self._fs.fsync_dir(self._directory)
        return self._file


def read_durable_end(fs: FileSystem, directory: str) -> NotedEnd | None:
    """Return the durable end of a directory, None without a valid file."""
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
