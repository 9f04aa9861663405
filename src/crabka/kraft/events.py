"""Events of the core. `actions` describes the duties of the driver."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.kraft.actions import ControlRecord
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import Request, Response
from crabka.kraft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A deadline is due, or time simply went on."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A peer or client asks; the answer is a Reply with this token, at once or later."""

    token: object
    request: Request


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The answer to a Send."""

    request_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A Send got no answer: time-out, broken connection, no route.

    `unsupported` means that the peer does not know the version: a peer without pre-votes counts as granting one.
    """

    request_id: int
    unsupported: bool = False


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """The fetch connection to the leader broke and every dial to its addresses was refused.

    Only ECONNREFUSED counts, from two rounds of dials at least 100 ms apart; never a time-out, an unreachable network
    or a name that does not resolve.
    """

    leader_id: int


@dataclass(frozen=True, slots=True)
class LogAppended:
    """Batches are in the log, not yet synced: the answer to an append action, or an append of the driver as leader.

    `control` names the control records among them with their offsets; those that the core does not know are left out.
    """

    end_offset: int
    control: tuple[tuple[int, ControlRecord], ...] = ()
    # Whether the first batch that the leader sent was not fit to be appended, so that none was.
    refused: bool = False


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """Everything below `end_offset` survives a power cut."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """The log ends at `end_offset` now, durably."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class LogPruned:
    """The log starts at `start_offset` now, covered by a snapshot."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """A fetched snapshot is durable and the log starts after it, empty; the voters are those of the snapshot."""

    snapshot: OffsetAndEpoch
    voters: VoterSet
    kraft_version: int


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """A fetched snapshot is malformed; it was removed."""

    snapshot: OffsetAndEpoch
    reason: str


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """The controller cannot lead on in this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The node stops: a leader hands over and then stays resigned; `core.may_stop` is true once that is done."""


Event = (
    TimePassed
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | LeaderLost
    | LogAppended
    | LogFlushed
    | LogTruncated
    | LogPruned
    | SnapshotInstalled
    | SnapshotRefused
    | ResignRequested
    | ShutdownRequested
)
