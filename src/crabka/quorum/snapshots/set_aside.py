"""Damaged snapshots of the metadata log: kept under another name, so that they are not read as snapshots.

Only some of them are kept, so that rot does not fill a disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.file_names import METADATA_SNAPSHOT_SUFFIX
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.quorum.snapshots.files import SnapshotHead, SnapshotId, read_snapshot_head

if TYPE_CHECKING:
    from crabka.ports import FileSystem

DAMAGED_SUFFIX = ".damaged"
MAX_KEPT = 3
logger = logging.getLogger(__name__)


class DamagedSnapshot(NamedTuple):
    """A damaged snapshot."""

    snapshot_id: SnapshotId
    path: str
    reason: str
    # The content of its first batch, if that is valid.
    head: SnapshotHead | None = None

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the replica's metadata when the snapshot was written."""
        return OffsetAndEpoch(*self.snapshot_id)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def damaged_snapshot(fs: FileSystem, path: str, snapshot_id: SnapshotId, reason: str) -> DamagedSnapshot:
    """Describe a damaged snapshot and its readable part."""
    try:
        return DamagedSnapshot(snapshot_id, path, reason, read_snapshot_head(fs, path))
    except CorruptDataError:
        return DamagedSnapshot(snapshot_id, path, reason)


def set_aside(fs: FileSystem, directory: str, damaged: Iterable[DamagedSnapshot]) -> None:
    """Rename damaged snapshots, durably, with one warning for each; the oldest renamed ones are removed."""
    renamed = False
    for each in damaged:
        fs.rename(each.path, each.path + DAMAGED_SUFFIX)
        renamed = True
        logger.warning("Metadata snapshot %s is damaged and kept as %s: %s", each.path, DAMAGED_SUFFIX, each.reason)
    if renamed:
        kept = sorted(
            name for name in fs.listdir(directory) if name.endswith(METADATA_SNAPSHOT_SUFFIX + DAMAGED_SUFFIX)
        )
        for name in kept[:-MAX_KEPT]:
            fs.unlink(f"{directory}/{name}")
        fs.fsync_dir(directory)
