"""The check of the files beside the segments of a log: producer snapshots, leader epochs, `partition.metadata`.

Runs in a thread and writes nothing. Snapshots have a checksum; the others are compared with what the open log knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import ABORTED_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from crabka.log.dirs.partition_metadata import read_partition_metadata
from crabka.log.producers.snapshots import decode_snapshot
from crabka.log.segment.aborted_note import read_aborted_note
from crabka.vfs import read_file

if TYPE_CHECKING:
    import uuid

    from crabka.formats.transaction_index import IndexNote
    from crabka.ports import FileSystem


class SmallFilesTarget(NamedTuple):
    """What a check works on, chosen at one moment on the loop."""

    fs: FileSystem
    directory: str
    # What the checkpoint of the leader epochs must hold, None while it is about to be written.
    epochs: Sequence[tuple[int, int]] | None
    topic_id: uuid.UUID | None
    snapshots: Sequence[tuple[int, str]]
    # Which segments have aborted transactions.
    aborted_notes: Mapping[int, IndexNote]


class SmallFilesFindings(NamedTuple):
    """What is wrong, each with its reason."""

    epochs: str
    metadata: str
    snapshots: dict[int, str]
    aborted_note: str

    @property
    def reasons(self) -> list[str]:
        """What is wrong, as text."""
        return [each for each in (self.epochs, self.metadata, self.aborted_note, *self.snapshots.values()) if each]


def check_small_files(target: SmallFilesTarget) -> SmallFilesFindings:
    """Read the files and compare. Raises OSError."""
    snapshots = {}
    for offset, path in target.snapshots:
        data = _content(target.fs, path)
        if data is None:
            # Retention or a roll was faster; a lost one is rebuilt when it is needed.
            continue
        try:
            decode_snapshot(data, path)
        except CorruptDataError as error:
            snapshots[offset] = str(error)
    note = ""
    if read_aborted_note(target.fs, target.directory) != dict(target.aborted_notes):
        note = f"{target.directory}/{ABORTED_CHECKPOINT}: it does not hold what was written"
    return SmallFilesFindings(_wrong_epochs(target), _wrong_metadata(target), snapshots, note)


def _wrong_epochs(target: SmallFilesTarget) -> str:
    path = f"{target.directory}/{LEADER_EPOCH_CHECKPOINT}"
    data = None if target.epochs is None else _content(target.fs, path)
    if target.epochs is None or (data is None and not target.epochs):
        return ""
    try:
        found = [] if data is None else decode_epochs(data, path)
    except CorruptDataError as error:
        return str(error)
    return "" if found == list(target.epochs) else f"{path}: it does not hold the {len(target.epochs)} known epochs"


def _wrong_metadata(target: SmallFilesTarget) -> str:
    path = f"{target.directory}/{PARTITION_METADATA}"
    if target.topic_id is None:
        return ""
    try:
        found = read_partition_metadata(target.fs, path)
    except CorruptDataError as error:
        return str(error)
    return "" if found == target.topic_id else f"{path}: it holds topic id {found}, not {target.topic_id}"


def _content(fs: FileSystem, path: str) -> bytes | None:
    try:
        return read_file(fs, path)
    except FileNotFoundError:
        return None
