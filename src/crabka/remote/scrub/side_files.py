"""Checks what lies beside the log and its indexes: the leader epochs and the producer snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.leader_epochs import EpochLineage, format_epochs
from crabka.formats.producer_snapshot import decode_producers

if TYPE_CHECKING:
    from crabka.remote.scrub.index_files import Report
    from crabka.remote.segments import RemoteLogSegmentMetadata


def check_epoch_checkpoint(data: bytes, metadata: RemoteLogSegmentMetadata, report: Report) -> None:
    """Report what is wrong with the epochs of a segment: the object, or that it contradicts the metadata."""
    try:
        lineage = EpochLineage(decode_epochs(data))
    except CorruptDataError as error:
        report(error.message)
        return
    cut = lineage.between(metadata.start_offset, metadata.end_offset)
    if cut != metadata.leader_epochs:
        report(f"it says {format_epochs(cut)} of the segment, the metadata {format_epochs(metadata.leader_epochs)}")


def check_producer_snapshot(data: bytes, metadata: RemoteLogSegmentMetadata, report: Report) -> None:
    """Report what is wrong with the producer snapshot of a segment."""
    try:
        rows = decode_producers(data)
    except CorruptDataError as error:
        report(error.message)
        return
    for row in rows:
        if row.last_offset > metadata.end_offset:
            report(f"producer {row.producer_id} wrote offset {row.last_offset}, after the end {metadata.end_offset}")
