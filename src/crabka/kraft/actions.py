"""What the core asks of its driver.

The driver's duty:

1. It carries out the actions of one step in order, and all of them before the next step.
2. `PersistElection` is done when quorum-state is on disk (written, synced, renamed, directory synced); only then come
   the actions in its `then`. All messages that show another node a new epoch or vote are in there.
3. `AppendControl` and `AppendRecords` write to the log (the page cache is enough) and answer with `LogAppended` at
   once, `TruncateLog` with `LogTruncated`, `InstallSnapshot` with `SnapshotInstalled` or `SnapshotRefused`. These
   events are stepped before any other.
4. After an append the driver syncs the log beside its other work and reports `LogFlushed` with the end offset that it
   synced. A truncation or an installed snapshot waits for a sync under way and voids its report; both return synced.
5. Every `Send` ends in exactly one `ResponseReceived` or `RequestFailed`, at the latest after the request time-out.
   Endpoints are resolved anew for each dial.
6. Every `Reply` goes to the connection of its token; a token whose connection is gone is forgotten.
7. After a step the driver sets one timer to `core.next_deadline_ms` and steps `TimePassed` when it is due.
8. It keeps a note of what it reported as durable, which outlives the log: raised after a sync, lowered before a cut,
   left alone while the log lacks some of it. The note is `durable_end` of the next start; on `SettleLoss` it names the
   log as it is.
9. On `RoleChanged` away from leadership every waiter for an append fails with NOT_LEADER_OR_FOLLOWER.

An error of the disk in 2-4 ends the node: the core must not be stepped again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import Request, Response
from crabka.kraft.roles import RoleName
from crabka.kraft.voters import Peer, ReplicaKey, VoterSet


class ElectionState(NamedTuple):
    """The content of quorum-state: what a node must not forget of an epoch.

    The vote stays for the whole epoch, whatever leader is believed meanwhile.
    """

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """Control record that opens an epoch: the leader, all voters, those who elected it."""

    leader_id: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KRaftVersionChange:
    """Control record that sets kraft.version."""

    level: int


@dataclass(frozen=True, slots=True)
class VotersChange:
    """Control record that sets the voters."""

    voters: VoterSet


ControlRecord = LeaderChange | KRaftVersionChange | VotersChange


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Make quorum-state durable, then go on."""

    state: ElectionState
    then: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; the id comes back with its outcome."""

    request_id: int
    to: Peer
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request of this token."""

    token: object
    response: Response


@dataclass(frozen=True, slots=True)
class AppendControl:
    """Append one control batch as leader of `epoch`; it must get `base_offset`."""

    epoch: int
    base_offset: int
    records: tuple[ControlRecord, ...]


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append what the leader sent, at `base_offset`, after checking its batches (CRC, offsets, epochs not above)."""

    base_offset: int
    epoch: int
    records: object


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Cut the log at `end_offset`."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class WriteSnapshotChunk:
    """Write a piece of a snapshot that is being fetched; position 0 starts a new partial file."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Check the fetched snapshot, make it durable under its name, and restart the log after it."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class SettleLoss:
    """A leader brought back what this replica had lost: from now on its log as it is counts as durable."""

    end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """Everything below `offset` is committed: apply it, wake waiters."""

    offset: int


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """The role, the epoch or the leader changed: log it, notify listeners."""

    before: RoleName
    after: RoleName
    election: ElectionState
    reason: str


@dataclass(frozen=True, slots=True)
class Warn:
    """Something a well-behaved quorum does not do was seen and ignored: log it."""

    message: str


Action = (
    PersistElection
    | Send
    | Reply
    | AppendControl
    | AppendRecords
    | TruncateLog
    | WriteSnapshotChunk
    | InstallSnapshot
    | SettleLoss
    | AdvanceHighWatermark
    | RoleChanged
    | Warn
)
