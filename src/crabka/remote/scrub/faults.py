"""What can be wrong with a tier, how bad it is, and what to do about it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.remote.segments import RemoteLogSegmentId, TopicIdPartition


class Severity(IntEnum):
    """How bad a fault is; only a note leaves a tier clean."""

    NOTE = 0
    """Explained by ordinary operation; nothing is lost or leaked."""
    LEAK = 1
    """Wasted space or unfinished work; all records can be read."""
    DAMAGE = 2
    """Records that cannot be read, or that may be wrong."""


class TierFaultKind(Enum):
    """Kinds of faults; the values are what programs see."""

    MISSING_OBJECT = "missing-object"
    WRONG_SIZE = "wrong-size"
    UNREADABLE = "unreadable"
    CORRUPT_BATCH = "corrupt-batch"
    OFFSETS_IN_SEGMENT = "offsets-in-segment"
    EPOCHS_IN_SEGMENT = "epochs-in-segment"
    METADATA_MISMATCH = "metadata-mismatch"
    BAD_INDEX = "bad-index"
    GAP = "gap"
    EPOCH_CONFLICT = "epoch-conflict"
    COPIES_DIFFER = "copies-differ"
    ILLEGAL_STATE = "illegal-state"
    BAD_EVENT = "bad-event"
    CUT_METADATA = "cut-metadata"
    ORPHAN_OBJECT = "orphan-object"
    STUCK_COPY = "stuck-copy"
    STUCK_DELETE = "stuck-delete"
    ABANDONED_SEGMENT = "abandoned-segment"
    LATE_EVENT = "late-event"
    FOREIGN_OBJECT = "foreign-object"
    OUTSIDE_LINEAGE = "outside-lineage"


_LEAKS = {
    TierFaultKind.ORPHAN_OBJECT,
    TierFaultKind.STUCK_COPY,
    TierFaultKind.STUCK_DELETE,
    TierFaultKind.ABANDONED_SEGMENT,
}
_NOTES = {TierFaultKind.LATE_EVENT, TierFaultKind.FOREIGN_OBJECT, TierFaultKind.OUTSIDE_LINEAGE}

_RESTORE = "restore it from a copy of the bucket (older version, replica); "
_ADVICE = {
    TierFaultKind.MISSING_OBJECT: _RESTORE + "until then consumers cannot read these offsets",
    TierFaultKind.WRONG_SIZE: _RESTORE + "the object is not what was uploaded",
    TierFaultKind.UNREADABLE: "check the store's health and rights, then run this again",
    TierFaultKind.CORRUPT_BATCH: (
        _RESTORE + "brokers correct one wrong byte of a batch when they read it, and answer CORRUPT_MESSAGE for more"
    ),
    TierFaultKind.OFFSETS_IN_SEGMENT: "compare with a replica; expected only if the topic was once compacted",
    TierFaultKind.EPOCHS_IN_SEGMENT: "lookups by epoch may miss these records; keep the object and report it",
    TierFaultKind.METADATA_MISMATCH: "retention may act on the wrong value; keep the object and report it",
    TierFaultKind.BAD_INDEX: _RESTORE + "brokers notice it and use the batches instead, which costs time",
    TierFaultKind.GAP: "lost unless a replica has them; `crabka records delete-before` moves the log start past them",
    TierFaultKind.EPOCH_CONFLICT: "two leaders disagree on history; keep all objects and report it",
    TierFaultKind.COPIES_DIFFER: "two uploads of the same records differ; compare both with a replica",
    TierFaultKind.ILLEGAL_STATE: "brokers refuse such an event; look for a second cluster that writes to this topic",
    TierFaultKind.BAD_EVENT: "brokers skip it; a segment that only it described is not found any more",
    TierFaultKind.CUT_METADATA: "the topic has to keep everything (retention.ms=-1); do not delete orphans",
    TierFaultKind.ORPHAN_OBJECT: "not referenced by any segment; `crabka tier fsck --delete-orphans` removes it",
    TierFaultKind.STUCK_COPY: "the leader removes it after a while; if it stays, look at the leader's log",
    TierFaultKind.STUCK_DELETE: "the leader tries again; if it stays, look at the rights to delete objects",
    TierFaultKind.ABANDONED_SEGMENT: "its topic is gone; the owner of the metadata partition removes it, see its log",
    TierFaultKind.LATE_EVENT: "an old leader spoke after its successor; the event was refused",
    TierFaultKind.FOREIGN_OBJECT: "not written by tiered storage; give the tier a prefix of its own",
    TierFaultKind.OUTSIDE_LINEAGE: "a copy from before an unclean election; it goes with retention",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFault:
    """One thing that is wrong. `detail` is a sentence of its own without the place."""

    kind: TierFaultKind
    detail: str
    partition: TopicIdPartition | None = None
    segment_id: RemoteLogSegmentId | None = None
    object_name: str | None = None

    @property
    def severity(self) -> Severity:
        """How bad faults of this kind are."""
        if self.kind in _NOTES:
            return Severity.NOTE
        return Severity.LEAK if self.kind in _LEAKS else Severity.DAMAGE

    @property
    def advice(self) -> str:
        """What an operator does about faults of this kind."""
        return _ADVICE[self.kind]

    @property
    def place(self) -> str:
        """Where it is: an object, a segment, a partition or the whole tier."""
        return str(self.object_name or self.segment_id or self.partition or "tier")

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.place}: {self.detail}"
