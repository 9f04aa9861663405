"""Requests and responses of the quorum, with the information of Kafka's RPCs and without their encoding.

Vote v2, BeginQuorumEpoch v1, EndQuorumEpoch v1, Fetch v18 (replica directory id, diverging epoch, snapshot id, known
high watermark), FetchSnapshot v1, AddRaftVoter v1, RemoveRaftVoter v0, UpdateRaftVoter v0, DescribeQuorum v2, and the
kraft.version part of ApiVersions. Optional fields are None where the wire has -1 or null. The topic is always
`__cluster_metadata` and is checked by the codec.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode
from crabka.protocol.error_codes import ErrorCode


class LeaderHint(NamedTuple):
    """What a node believes: the epoch, its leader if known, and where that leader listens."""

    epoch: int
    leader_id: int | None = None
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A replica asks for a vote; a pre-vote only asks whether it would get one (KIP-996)."""

    cluster_id: str | None
    candidate: ReplicaKey
    epoch: int
    last: OffsetAndEpoch
    voter: ReplicaKey | None = None
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    """The answer to a vote request."""

    error: ErrorCode
    leader: LeaderHint
    granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """A new leader makes itself known to a voter."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    voter: ReplicaKey | None = None
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    """The answer of the voter."""

    error: ErrorCode
    leader: LeaderHint


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader resigns and names its successors, the most complete log first."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    preferred: tuple[ReplicaKey, ...] = ()
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse:
    """The answer of the voter."""

    error: ErrorCode
    leader: LeaderHint


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFetchRequest:
    """A replica requests records after its log end, which means that all records before it are durable there.

    `high_watermark` is the one that the replica knows; with None the leader does not answer for a new one (KIP-1166).
    """

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int = 0
    max_bytes: int = 0
    high_watermark: int | None = None


@dataclass(frozen=True, slots=True)
class LogRange:
    """Records that the driver reads when it sends the response: whole batches from `offset` on."""

    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFetchResponse:
    """The answer of the leader; at most one of `records`, `diverging` and `snapshot` is there.

    The core sets `records` to a LogRange. A response that arrives holds what the peer's log gave, which the core only
    hands on to AppendRecords.
    """

    error: ErrorCode
    leader: LeaderHint
    high_watermark: int | None = None
    log_start_offset: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    records: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """A replica asks for a piece of a snapshot (KIP-630)."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """Bytes of a snapshot that the driver reads when it sends the response."""

    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse:
    """The answer of the leader; `data` is a SnapshotRange when sent and bytes when received."""

    error: ErrorCode
    leader: LeaderHint
    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    data: SnapshotRange | bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """An operator, or a controller itself, asks to make an observer a voter."""

    cluster_id: str | None
    voter: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...]
    timeout_ms: int
    # KIP-1186: false to be answered when the record is in the leader's log, which a joining voter can wait for.
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """An operator asks to make a voter an observer."""

    cluster_id: str | None
    voter: ReplicaKey
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """A voter reports its endpoints and versions to the leader."""

    cluster_id: str | None
    epoch: int
    voter: VoterNode


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeResponse:
    """The answer to AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter."""

    error: ErrorCode
    leader: LeaderHint
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """The controller asks to raise kraft.version (UpdateFeatures)."""

    kraft_version: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeResponse:
    """The outcome: the records are in the leader's log, or why not."""

    error: ErrorCode
    leader: LeaderHint
    message: str = ""


@dataclass(frozen=True, slots=True)
class VersionsRequest:
    """ApiVersions, sent to a replica that is to become a voter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsResponse:
    """The kraft.version range of the answer; None if it names none."""

    error: ErrorCode
    kraft_versions: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeRequest:
    """DescribeQuorum."""


class ReplicaDescription(NamedTuple):
    """How far one replica is, as its leader sees it; times are -1 until it fetched or caught up."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeResponse:
    """The state of the quorum as its leader sees it."""

    error: ErrorCode
    leader: LeaderHint
    high_watermark: int | None = None
    voters: tuple[ReplicaDescription, ...] = ()
    observers: tuple[ReplicaDescription, ...] = ()


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | MetadataFetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | UpgradeRequest
    | VersionsRequest
    | DescribeRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | MetadataFetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
    | UpgradeResponse
    | VersionsResponse
    | DescribeResponse
)
