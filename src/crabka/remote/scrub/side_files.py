"""Checks what lies beside the log and its indexes: the leader epochs and the producer snapshot."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

if TYPE_CHECKING:
    from crabka.remote.scrub.index_files import Report
    from crabka.remote.segments import RemoteLogSegmentMetadata

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs with their first offsets."""

_CHECKPOINT_VERSION: Final = "0"
_SNAPSHOT_PREFIX: Final = struct.Struct(">hI")
_SNAPSHOT_COUNT: Final = struct.Struct(">i")
# Producer id and epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction's start.
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION: Final = 1


def parse_epoch_checkpoint(data: bytes) -> Epochs:
    """Return the entries of a leader epoch checkpoint. Raises ValueError that says what is wrong."""
    lines = data.decode("ascii", errors="replace").split("\n")
    if len(lines) < 2 or lines[0] != _CHECKPOINT_VERSION or not lines[1].isdecimal():
        raise ValueError("it has no header of a checkpoint of version 0")
    entries = [line.split() for line in lines[2:] if line]
    if len(entries) != int(lines[1]):
        raise ValueError(f"it has {len(entries)} entries instead of {lines[1]}")
    if any(len(entry) != 2 or not all(word.isdecimal() for word in entry) for entry in entries):
        raise ValueError("it has a line that is not `epoch offset`")
    epochs = tuple((int(epoch), int(start)) for epoch, start in entries)
    if not epochs_rise(epochs):
        raise ValueError("its epochs overlap")
    return epochs


def epochs_rise(epochs: Sequence[tuple[int, int]]) -> bool:
    """Return whether epochs and their first offsets rise."""
    return all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(epochs))


def cut_epochs(epochs: Epochs, start_offset: int, end_offset: int) -> Epochs:
    """Return the epochs that records from start to end, both included, were written in."""
    cut: list[tuple[int, int]] = []
    for epoch, first in reversed(epochs):
        if first <= start_offset:
            cut.append((epoch, start_offset))
            break
        if first <= end_offset:
            cut.append((epoch, first))
    return tuple(reversed(cut))


def epoch_at(epochs: Epochs, offset: int) -> int | None:
    """Return the epoch in which an offset was written, None for what lies before the first."""
    return next((epoch for epoch, first in reversed(epochs) if first <= offset), None)


def histories_agree(a: Epochs, b: Epochs) -> bool:
    """Return whether two checkpoints can be of one partition.

    Their ends may differ, after an unclean election, and their starts, which lie where the log began. What two
    leaders have before an epoch that both know is the same.
    """
    starts_a, starts_b = dict(a), dict(b)
    common = max(starts_a.keys() & starts_b.keys(), default=None)
    if common is None:
        return True
    if common != a[0][0] and common != b[0][0] and starts_a[common] != starts_b[common]:
        return False
    begin = max(a[0][1], b[0][1])
    end = max(begin, starts_a[common], starts_b[common])
    if epoch_at(a, end) != common or epoch_at(b, end) != common:
        return True  # one of them left this epoch before the other one's log began
    return cut_epochs(a, begin, end) == cut_epochs(b, begin, end)


def check_epoch_checkpoint(data: bytes, metadata: RemoteLogSegmentMetadata, report: Report) -> None:
    """Report what is wrong with the epochs of a segment: the object, or that it contradicts the metadata."""
    try:
        epochs = parse_epoch_checkpoint(data)
    except ValueError as error:
        report(str(error))
        return
    cut = cut_epochs(epochs, metadata.start_offset, metadata.end_offset)
    if cut != metadata.leader_epochs:
        report(f"it says {format_epochs(cut)} of the segment, the metadata {format_epochs(metadata.leader_epochs)}")


def check_producer_snapshot(data: bytes, metadata: RemoteLogSegmentMetadata, report: Report) -> None:
    """Report what is wrong with the producer snapshot of a segment."""
    try:
        producers = _parse_producers(data)
    except ValueError as error:
        report(str(error))
        return
    for fields in producers:
        if fields[3] > metadata.end_offset:
            report(f"producer {fields[0]} wrote offset {fields[3]}, behind the end {metadata.end_offset}")


def parse_open_transactions(data: bytes) -> dict[int, int]:
    """Return the first offsets of the transactions that are open in a producer snapshot, by producer.

    Raises ValueError that says what is wrong.
    """
    return {fields[0]: fields[7] for fields in _parse_producers(data) if fields[7] >= 0}


def _parse_producers(data: bytes) -> list[tuple[int, ...]]:
    smallest = _SNAPSHOT_PREFIX.size + _SNAPSHOT_COUNT.size
    if len(data) < smallest:
        raise ValueError(f"its {len(data)} bytes are too few")
    version, crc = _SNAPSHOT_PREFIX.unpack_from(data)
    (count,) = _SNAPSHOT_COUNT.unpack_from(data, _SNAPSHOT_PREFIX.size)
    if version != _SNAPSHOT_VERSION:
        raise ValueError(f"its version is {version}, not {_SNAPSHOT_VERSION}")
    if crc != crc32c(memoryview(data)[_SNAPSHOT_PREFIX.size :]):
        raise ValueError("its checksum is wrong")
    if len(data) != smallest + count * _SNAPSHOT_ENTRY.size:
        raise ValueError(f"its {len(data)} bytes do not hold {count} producers")
    return list(_SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[smallest:]))


def format_epochs(epochs: Sequence[tuple[int, int]]) -> str:
    """Return epochs as people read them: `0 from 106, 2 from 120`."""
    return ", ".join(f"{epoch} from {first}" for epoch, first in epochs) or "none"
