"""What an opening found to be lost: offsets that a log had durably, or that were committed, and no longer has.

A torn write is the end that was not synced yet; a loss reaches below the recovery point or the high watermark that the
checkpoints of the log dir hold. PURE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.log.recovery.cuts import LogCut


class LogLoss(NamedTuple):
    """Offsets [offset, end_offset) that are gone from a log, and why.

    `LogDurability.loss` is None unless an opening found one. The log ends at `offset` then, and may have grown since. A
    replica with a loss is neither in sync nor eligible as leader until it has followed a leader back into the ISR, or
    no other replica is left: then its owner calls `settle_loss`. Until that the checkpointed high watermark
    stays at `end_offset`, so that every opening finds the loss.
    """

    offset: int
    end_offset: int
    # The file that was cut, or where the log ends.
    path: str
    reason: str
    # Whether records went that were synced: rot, not a power cut that took what was committed in memory alone.
    is_durable: bool = True

    def __str__(self) -> str:
        return f"offsets {self.offset} to {self.end_offset - 1} are lost ({self.path}: {self.reason})"


def find_loss(
    log_end_offset: int, *, recovery_point: int, high_watermark: int, cuts: Sequence[LogCut], path: str
) -> LogLoss | None:
    """Return what is missing up to the offsets that the checkpoints hold; `path` is the last file of the log."""
    end_offset = max(recovery_point, high_watermark)
    if log_end_offset >= end_offset:
        return None
    is_durable = log_end_offset < recovery_point
    if cuts:
        return LogLoss(log_end_offset, end_offset, cuts[0].path, cuts[0].reason, is_durable)
    known = "recovery point" if is_durable else "high watermark"
    return LogLoss(log_end_offset, end_offset, path, f"the log ends below its checkpointed {known}", is_durable)
