"""The steps of a move at which tests interrupt it, by the names of their failpoints."""

from __future__ import annotations

from typing import Final

STEPS: Final = (
    "move.after_future_created",
    "move.after_copied",
    "move.before_synced",
    "move.after_synced",
    "move.before_assigned",
    "move.after_assigned",
    "move.before_marker",
    "move.after_marker",
    "move.after_held",
    "move.after_tail_copied",
    "move.before_future_renamed",
    "move.after_future_renamed",
    "move.after_future_synced",
    "move.after_reopened",
    "move.before_source_renamed",
    "move.after_source_renamed",
    "move.after_source_synced",
    "move.after_released",
    "move.before_marker_removed",
    "move.after_marker_removed",
)
CANCEL_STEPS: Final = ("move.after_future_deleted",)
