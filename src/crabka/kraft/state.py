"""The state that all parts of the core share, and how they return actions for the driver.

Parts are functions over this state: `election`, `following`, `leading`, `snapshot_fetch`, `reconfiguration`. Only
`transitions` changes role and election.
"""

from __future__ import annotations

from crabka.kraft.actions import (
    Action,
    AdvanceHighWatermark,
    AppendControl,
    AppendRecords,
    ElectionState,
    InstallSnapshot,
    Reply,
    Send,
    TruncateLog,
    Warn,
)
from crabka.kraft.epochs import MAX_EPOCH, EpochGuard
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import LogView, OffsetAndEpoch
from crabka.kraft.messages import LeaderHint, Request, Response
from crabka.kraft.requests import RequestTracker
from crabka.kraft.roles import CandidateRole, FollowerRole, ProspectiveRole, ResignedRole, UnattachedRole
from crabka.kraft.settings import KraftSettings, LocalReplica, Rng, random_election_timeout_ms
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import Peer, ReplicaKey, VoterEndpoint, VoterSet
from crabka.protocol.error_codes import ErrorCode

PEER_WARNING_PERIOD_MS = 1_000

Role = UnattachedRole | FollowerRole | ProspectiveRole | CandidateRole | LeaderRole | ResignedRole


class CoreState:
    """One replica of the metadata log, without its log."""

    def __init__(
        self,
        local: LocalReplica,
        settings: KraftSettings,
        log: LogView,
        history: VoterHistory,
        rng: Rng,
    ) -> None:
        self.local = local
        # Asked for many times in a step, and never another.
        self.key: ReplicaKey = local.key
        self.settings = settings
        self.log = log
        self.history = history
        self.rng = rng
        self.election = ElectionState()
        self.role: Role = UnattachedRole(election_deadline_ms=0)
        snapshot = log.latest_snapshot
        self.high_watermark: int | None = None if snapshot is None else snapshot.offset
        # Everything in the log at the start was found on disk, and opening it synced it.
        self.flushed_offset = log.end_offset
        # What was durable here and is lost: entries that this replica may have acknowledged. While it is set the
        # replica has no vote to give, since its log says less than it promised.
        self.lost_end: OffsetAndEpoch | None = None
        self.requests = RequestTracker()
        self.epochs = EpochGuard(settings)
        # A leader that no known voter set explains: it is asked as a bootstrap address is, not followed at its word.
        self.rumour: Peer | None = None
        self.warned_of_last_epoch = False
        self._next_peer_warning_ms = 0
        self.shutting_down = False
        self.actions: list[Action] = []
        # The log is about to change: the driver's word of it comes as the next event.
        self.log_is_changing = False

    @property
    def epoch(self) -> int:
        """The newest epoch that this replica knows."""
        return self.election.epoch

    @property
    def voters(self) -> VoterSet:
        """The voter set in force."""
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica is in the voter set; it is an observer otherwise."""
        return self.voters.is_voter(self.key)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election.

        A voter whose removal is in its log but not known to be committed still may (Ongaro's dissertation, 4.2.2):
        if it alone has that record, no other log is complete enough to win, and it refuses every other candidate.
        After the largest epoch there is none to stand in, and a replica that lost durable entries waits for a leader.
        """
        if self.epoch >= MAX_EPOCH or self.lost_end is not None:
            return False
        if self.is_voter:
            return True
        before = self.history.uncommitted_predecessor(self.high_watermark or 0)
        return before is not None and before.is_voter(self.key)

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica is a majority by itself."""
        return self.is_voter and len(self.voters) == 1

    def election_wait_ms(self) -> int:
        """Return how long to wait for a leader before an election; a lone voter does not wait."""
        if self.is_only_voter:
            return 0
        return random_election_timeout_ms(self.settings, self.rng)

    def emit(self, action: Action) -> None:
        """Ask the driver for something."""
        self.actions.append(action)
        if isinstance(action, AppendControl | AppendRecords | TruncateLog | InstallSnapshot):
            self.log_is_changing = True

    def warn(self, message: str) -> None:
        """Let the driver log something odd."""
        self.emit(Warn(message))

    def warn_of_peer(self, message: str, now_ms: int) -> None:
        """Let the driver log what a peer did, at most once a second: peers decide how often they do it."""
        if now_ms >= self._next_peer_warning_ms:
            self._next_peer_warning_ms = now_ms + PEER_WARNING_PERIOD_MS
            self.warn(message)

    def reply(self, token: object, response: Response) -> None:
        """Answer a request."""
        self.emit(Reply(token, response))

    def send(self, to: Peer, request: Request) -> None:
        """Send a request."""
        self.emit(Send(self.requests.start(to.node_id, request), to, request))

    def leader_endpoints(self) -> tuple[VoterEndpoint, ...]:
        """Return where the leader of the epoch listens, as far as known."""
        leader_id = self.election.leader_id
        if leader_id is None:
            return ()
        if leader_id == self.key.node_id:
            return self.local.node.endpoints
        if isinstance(self.role, FollowerRole):
            return self.role.leader.endpoints
        return self.voters.endpoints_of(leader_id)

    def hint(self) -> LeaderHint:
        """Return what this replica believes, for responses."""
        return LeaderHint(self.epoch, self.election.leader_id, self.leader_endpoints())

    def remote_voters(self) -> list[Peer]:
        """Return the voters but this node."""
        return [Peer(node.voter_id, node.endpoints) for node in self.voters.nodes if node.voter_id != self.key.node_id]

    def knows_voter(self, node_id: int) -> bool:
        """Whether a node can lead as far as this replica knows: one that knows no voters takes any."""
        return not self.voters.nodes or self.history.was_voter(node_id)

    def accepts_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request is meant for this cluster; as in Kafka, a request that does not say is taken."""
        return cluster_id is None or cluster_id == self.local.cluster_id

    def leader_only_error(self, epoch: int) -> ErrorCode:
        """Return why this replica cannot answer as leader of `epoch`."""
        if epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > self.epoch:
            return ErrorCode.unknown_leader_epoch
        if not isinstance(self.role, LeaderRole):
            return ErrorCode.not_leader_or_follower
        return ErrorCode.none

    def raise_high_watermark(self, offset: int) -> None:
        """Move the high watermark forward; it never goes back."""
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = offset
            self.emit(AdvanceHighWatermark(offset))
