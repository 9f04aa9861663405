"""Where the logs of a leader and a follower part, found by leader epochs (KIP-101, KIP-279, KIP-320, KIP-595).

A follower must not cut its log at the high watermark: what lies above it may have been acknowledged already, and what
lies below it may come from an older leader. Epochs distinguish the two: two logs are equal up to the end of the last
epoch that both have. PURE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.formats.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


def diverging_epoch(
    end_offset_for_epoch: Callable[[int], EpochEnd], *, last_fetched_epoch: int, fetch_offset: int
) -> EpochEnd | None:
    """Return what a leader answers to a follower whose log is not a beginning of its own; None if it is.

    The argument is the leader's own epoch look-up. Raises OperationError (OFFSET_OUT_OF_RANGE) for an epoch that the
    leader cannot place.
    """
    if last_fetched_epoch == UNDEFINED_EPOCH:
        return None
    end = end_offset_for_epoch(last_fetched_epoch)
    if end.epoch == UNDEFINED_EPOCH or end.end_offset == UNDEFINED_OFFSET:
        raise OperationError(ErrorCode.offset_out_of_range)
    return end if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset else None


def truncation_offset(
    diverging: EpochEnd,
    end_offset_for_epoch: Callable[[int], EpochEnd],
    *,
    log_end_offset: int,
    high_watermark: int,
) -> int:
    """Return where a follower must cut its log after the leader said where its own epoch ends.

    The second argument is the follower's own look-up. If it does not know the leader's epoch either, it cuts to the end
    of its newest older epoch, and the next fetch finds out more. Without any epochs only the high watermark is left.
    """
    if diverging.end_offset == UNDEFINED_OFFSET:
        return min(high_watermark, log_end_offset)
    own = end_offset_for_epoch(diverging.epoch)
    if own.epoch == UNDEFINED_EPOCH or own.end_offset == UNDEFINED_OFFSET:
        return min(diverging.end_offset, log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, diverging.end_offset, log_end_offset)
