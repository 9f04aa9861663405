"""Checks of a remote tier against its metadata; no command line, no clock, no network of its own.

The input is the metadata (`TierHistory`, fed with events), a listing and a RemoteStorageManager; the result is a list
of `TierFault`.
"""

from __future__ import annotations

from crabka.remote.scrub.faults import Severity, TierFault, TierFaultKind
from crabka.remote.scrub.history import TierEvent, TierHistory
from crabka.remote.scrub.lineage import PartitionBounds, check_lineage
from crabka.remote.scrub.objects import ObjectFindings, check_objects, verify_segment
from crabka.remote.scrub.scrub import (
    check_contents,
    compare_checkpoints,
    compare_copies,
    scrub_partition,
    still_true,
    verify_partition,
)
from crabka.remote.scrub.segment_check import check_segment
from crabka.remote.scrub.states import check_states

__all__ = [
    "ObjectFindings",
    "PartitionBounds",
    "Severity",
    "TierEvent",
    "TierFault",
    "TierFaultKind",
    "TierHistory",
    "check_contents",
    "check_lineage",
    "check_objects",
    "check_segment",
    "check_states",
    "compare_checkpoints",
    "compare_copies",
    "scrub_partition",
    "still_true",
    "verify_partition",
    "verify_segment",
]
