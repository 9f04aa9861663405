"""Read golden metadata logs and snapshots with plain file access, independent of `crabka.quorum`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crabka.metadata.records import decode_record
from crabka.metadata.replay import MetadataReplay
from crabka.records.header import crc_valid, iter_headers
from crabka.records.record import decode_records
from tests.support.recorded.files import GOLDEN

SINGLE = GOLDEN / "single" / "d1" / "__cluster_metadata-0"
QUORUM = [GOLDEN / "quorum" / node / "__cluster_metadata-0" for node in ("c1", "c3", "b10")]
METADATA_DIRS = [SINGLE, *QUORUM]


class StoredRecord(NamedTuple):
    """A record of a metadata log; `message` is None for control records."""

    offset: int
    epoch: int
    value: bytes
    message: Any


def stored_records(path: Path) -> Iterator[StoredRecord]:
    """Yield every record of a segment or checkpoint file."""
    data = path.read_bytes()
    for position, header in iter_headers(data):
        assert crc_valid(data, position, header)
        batch = data[position : position + header.size_in_bytes]
        for record in decode_records(batch, header):
            value = record.value or b""
            message = None if header.is_control else decode_record(value)
            yield StoredRecord(record.offset, header.partition_leader_epoch, value, message)


def segments(directory: Path) -> list[Path]:
    """Return the segments of a metadata log, oldest first."""
    return sorted(directory.glob("*.log"))


def checkpoints(directory: Path) -> list[Path]:
    """Return the snapshots that follow a log, oldest first."""
    return sorted(path for path in directory.glob("*.checkpoint"))


def replay_file(replay: MetadataReplay, path: Path, start_offset: int = 0) -> None:
    """Replay the records of a segment from an offset on."""
    for record in stored_records(path):
        if record.offset < start_offset:
            continue
        if record.message is None:
            replay.skip_to(record.offset, record.epoch)
        else:
            replay.replay(record.message, record.offset, record.epoch)


def replay_snapshot(path: Path) -> MetadataReplay:
    """Return a replay that has loaded a snapshot and stands at the snapshot's end."""
    end_offset, epoch = (int(part) for part in path.stem.split("-"))
    replay = MetadataReplay()
    for record in stored_records(path):
        if record.message is not None:
            replay.replay(record.message, end_offset - 1, epoch)
    replay.skip_to(end_offset - 1, epoch)
    return replay
