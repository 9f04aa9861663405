"""Events and actions of the core of a replica move (`move_plan`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class MoveState(Enum):
    """How far a move is."""

    COPYING = "copying"
    SYNCING = "syncing"
    # Reported to the controller; whether it committed is not known.
    ASSIGNING = "assigning"
    # The controller committed; what was appended meanwhile is copied.
    CLOSING_IN = "closing in"
    MARKING = "marking"
    HOLDING = "holding"
    COPYING_TAIL = "copying the tail"
    RENAMING = "renaming"
    REOPENING = "reopening"
    RETIRING = "retiring the source"
    CLEARING = "clearing"
    # Going back to the source.
    UNDOING = "undoing"
    ENDED = "ended"


class MoveOutcome(Enum):
    """How a move ended."""

    MOVED = "moved"
    CANCELLED = "cancelled"
    FAILED = "failed"
    # The partition is not hosted here any more.
    STOPPED = "stopped"
    # The node stops; the move goes on with the next start.
    SUSPENDED = "suspended"


# -- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """A step of copying is done; so many bytes of the source are not durable in the future log."""

    remaining_bytes: int
    # Whether the future log has everything, though maybe not durably.
    is_caught_up: bool


@dataclass(frozen=True, slots=True)
class Synced:
    """The future log is durable but for so many bytes that came meanwhile."""

    remaining_bytes: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The metadata say that the replica is in the target."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The marker is durable."""


@dataclass(frozen=True, slots=True)
class Held:
    """Appends are stopped; so many bytes are left to copy and sync."""

    remaining_bytes: int


@dataclass(frozen=True, slots=True)
class TailCopied:
    """The future log is the same as the source, durably."""


@dataclass(frozen=True, slots=True)
class FutureRenamed:
    """The future log has its final name, durably."""


@dataclass(frozen=True, slots=True)
class Reopened:
    """The log lies in the target from now on."""


@dataclass(frozen=True, slots=True)
class ReopenFailed:
    """The copy in the target cannot be opened."""

    reason: str


@dataclass(frozen=True, slots=True)
class SourceRetired:
    """The old copy waits for its deletion, durably."""


@dataclass(frozen=True, slots=True)
class MarkerRemoved:
    """No file shows the move any more."""


@dataclass(frozen=True, slots=True)
class AssignedBack:
    """The metadata say that the replica is in the source."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A request wants the replica to stay, or to go elsewhere."""

    reason: str = "cancelled"


@dataclass(frozen=True, slots=True)
class TargetFull:
    """The target has no room for the copy."""

    reason: str


@dataclass(frozen=True, slots=True)
class TargetFailed:
    """The disk of the target is lost."""

    reason: str


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The disk of the source is lost."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The partition was deleted or moved to other brokers."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The node stops."""


MoveEvent = (
    Copied
    | Synced
    | Assigned
    | Marked
    | Held
    | TailCopied
    | FutureRenamed
    | Reopened
    | ReopenFailed
    | SourceRetired
    | MarkerRemoved
    | AssignedBack
    | Cancelled
    | TargetFull
    | TargetFailed
    | SourceFailed
    | Stopped
    | Suspended
)


# -- actions -------------------------------------------------------------------------------------------------------


class MoveAction(Enum):
    """What to do next. Those in `WORK` end with an event, the others are followed by the next one in the list."""

    COPY = "copy"
    SYNC = "sync"
    ASSIGN = "assign"
    WRITE_MARKER = "write the marker"
    HOLD = "hold appends"
    COPY_TAIL = "copy the tail"
    RENAME_FUTURE = "rename the future log"
    REOPEN = "reopen"
    RETIRE_SOURCE = "retire the source"
    CLEAR_MARKER = "clear the marker"
    ASSIGN_BACK = "assign back"
    RELEASE = "release appends"
    DROP_MARKER = "drop the marker"
    RENAME_BACK = "rename the future log back"
    DELETE_FUTURE = "delete the future log"
    DELETE_FINAL = "delete the copy in the target"


WORK: Final = frozenset(
    {
        MoveAction.COPY,
        MoveAction.SYNC,
        MoveAction.ASSIGN,
        MoveAction.WRITE_MARKER,
        MoveAction.HOLD,
        MoveAction.COPY_TAIL,
        MoveAction.RENAME_FUTURE,
        MoveAction.REOPEN,
        MoveAction.RETIRE_SOURCE,
        MoveAction.CLEAR_MARKER,
        MoveAction.ASSIGN_BACK,
    }
)


@dataclass(frozen=True, slots=True)
class Finish:
    """The move is over."""

    outcome: MoveOutcome
    reason: str = ""


Todo = MoveAction | Finish
