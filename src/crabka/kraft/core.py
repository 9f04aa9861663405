"""The consensus core: `step(event, now_ms)` changes the state of one replica and returns what its driver must do.

KIP-595 (pull-based Raft), KIP-996 (pre-vote), KIP-630 (snapshots), KIP-853 (voters as records). The core owns epoch,
vote, role, voters and high watermark. It knows no socket, file, clock or random source; `actions` has the driver's
duties, `docs/internals/consensus.md` the rules and where they come from.
"""

from __future__ import annotations

from typing import assert_never

from crabka.kraft import election, following, leading, membership, reconfiguration, snapshot_fetch
from crabka.kraft.actions import Action, ElectionState, KRaftVersionChange, PersistElection, VotersChange
from crabka.kraft.events import (
    Event,
    LeaderLost,
    LogAppended,
    LogFlushed,
    LogPruned,
    LogTruncated,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
    SnapshotInstalled,
    SnapshotRefused,
    TimePassed,
)
from crabka.kraft.invariants import check_invariants
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import LogView, OffsetAndEpoch, end_of_log
from crabka.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderHint,
    MetadataFetchRequest,
    MetadataFetchResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpgradeRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from crabka.kraft.polling import next_deadline_ms, poll
from crabka.kraft.requests import SentRequest
from crabka.kraft.roles import FollowerRole, ProspectiveRole, ResignedRole, RoleName, UnattachedRole
from crabka.kraft.settings import KraftSettings, LocalReplica, Rng
from crabka.kraft.state import CoreState, Role
from crabka.kraft.transitions import to_resigned
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import Peer, VoterSet
from crabka.protocol.error_codes import ErrorCode


class KraftCore:
    """One replica of the metadata quorum.

    `log` must show what the driver's log holds whenever `step` runs; `history` holds the voters found in the newest
    snapshot and the log (or in the config), `election` what quorum-state says, None if there is no such file.
    `durable_end` is what this replica had made durable before it started: the log may lack some of that.
    """

    def __init__(
        self,
        local: LocalReplica,
        settings: KraftSettings,
        log: LogView,
        *,
        history: VoterHistory,
        rng: Rng,
        election: ElectionState | None = None,
        durable_end: OffsetAndEpoch | None = None,
        now_ms: int = 0,
    ) -> None:
        self._state = CoreState(local, settings, log, history, rng)
        if durable_end is not None and end_of_log(log).recency < durable_end.recency:
            self._state.lost_end = durable_end
        self._persisted = election or ElectionState()
        self._now_ms = now_ms
        self._start(self._persisted, now_ms)

    @property
    def role(self) -> RoleName:
        """What the replica does at the moment."""
        return self._state.role.name

    @property
    def election(self) -> ElectionState:
        """Epoch, leader and vote."""
        return self._state.election

    @property
    def epoch(self) -> int:
        """The newest epoch that the replica knows; batches that the driver appends as leader carry it."""
        return self._state.epoch

    @property
    def is_leader(self) -> bool:
        """Whether the driver may append."""
        return isinstance(self._state.role, LeaderRole)

    @property
    def is_voter(self) -> bool:
        """Whether the replica is in the voter set; it is an observer otherwise."""
        return self._state.is_voter

    @property
    def lost_end(self) -> OffsetAndEpoch | None:
        """What was durable here and is lost; the replica has no vote until a leader has brought it back."""
        return self._state.lost_end

    @property
    def leader(self) -> LeaderHint:
        """What the replica believes of the leader."""
        return self._state.hint()

    @property
    def epoch_start_offset(self) -> int | None:
        """The start of this leader's epoch: all before it is applied once the high watermark passes it."""
        role = self._state.role
        return role.epoch_start_offset if isinstance(role, LeaderRole) else None

    @property
    def high_watermark(self) -> int | None:
        """Everything below is committed; None until the replica learned of it."""
        return self._state.high_watermark

    @property
    def leader_high_watermark(self) -> int | None:
        """The high watermark as reported by the leader; None until a leader has reported one."""
        role = self._state.role
        if isinstance(role, LeaderRole):
            return role.high_watermark
        return role.leader_high_watermark if isinstance(role, FollowerRole) else None

    @property
    def voters(self) -> VoterSet:
        """The voter set in force, committed or not."""
        return self._state.voters

    @property
    def history(self) -> VoterHistory:
        """Voters and kraft.version by offset: a snapshot at an offset holds those of `offset - 1`."""
        return self._state.history

    @property
    def next_deadline_ms(self) -> int | None:
        """When to step TimePassed if nothing else happens."""
        return next_deadline_ms(self._state, self._now_ms)

    @property
    def may_stop(self) -> bool:
        """Whether a shutdown has nothing left to hand over."""
        role = self._state.role
        if isinstance(role, LeaderRole):
            return False
        return not isinstance(role, ResignedRole) or {peer.node_id for peer in role.successors} <= role.acknowledged

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take an event at a time that never goes back, and return the actions in the order of their execution.

        Raises InvariantError if a fact that must always hold does not: the node must stop.
        """
        state = self._state
        self._now_ms = max(now_ms, self._now_ms)
        state.actions = []
        state.log_is_changing = False
        self._handle(event, self._now_ms)
        if not state.log_is_changing:
            poll(state, self._now_ms)
        if state.election == self._persisted:
            return state.actions
        self._persisted = state.election
        return [PersistElection(state.election, tuple(state.actions))]

    def check_invariants(self) -> None:
        """Raise InvariantError unless the state is consistent; for tests, after every step."""
        check_invariants(self._state)

    def _start(self, kept: ElectionState, now_ms: int) -> None:
        """Resume from what is on disk, in the role that is safe after a restart (Kafka: QuorumState.initialize)."""
        state = self._state
        epoch = max(kept.epoch, state.log.last_epoch)
        state.election = kept if epoch == kept.epoch else ElectionState(epoch)
        deadline = now_ms + state.election_wait_ms()
        state.role = self._first_role(deadline, now_ms)

    def _first_role(self, deadline_ms: int, now_ms: int) -> Role:
        state = self._state
        leader_id = state.election.leader_id
        if leader_id is None:
            return UnattachedRole(deadline_ms)
        if leader_id == state.key.node_id:
            # It must not lead on: records of this epoch may be lost, and their offsets must not be given twice.
            return ResignedRole(deadline_ms, tuple(state.remote_voters()), ())
        endpoints = state.voters.endpoints_of(leader_id)
        if not endpoints:
            return UnattachedRole(deadline_ms)
        return FollowerRole(
            Peer(leader_id, endpoints),
            fetch_deadline_ms=now_ms + state.settings.fetch_timeout_ms,
            update_at_ms=now_ms + state.settings.update_voter_period_ms,
        )

    def _handle(self, event: Event, now_ms: int) -> None:
        state = self._state
        match event:
            case TimePassed():
                pass
            case RequestReceived(token, request):
                self._handle_request(token, request, now_ms)
            case ResponseReceived(request_id, response):
                sent = state.requests.finish(request_id)
                if sent is not None and not self._handle_response(sent, response, now_ms):
                    state.requests.pause(sent, now_ms + state.settings.retry_backoff_ms)
            case RequestFailed(request_id):
                self._handle_failure(request_id, now_ms, unsupported=event.unsupported)
            case LeaderLost(leader_id):
                election.handle_leader_lost(state, leader_id, now_ms)
            case LogAppended():
                self._handle_appended(event, now_ms)
            case LogFlushed(end_offset):
                state.flushed_offset = max(state.flushed_offset, min(end_offset, state.log.end_offset))
                following.maybe_settle(state)
                leading.advance_high_watermark(state, now_ms)
            case LogTruncated(end_offset):
                state.history.truncate(end_offset)
                state.flushed_offset = min(state.flushed_offset, end_offset)
            case LogPruned(start_offset):
                state.history.prune(start_offset)
            case SnapshotInstalled():
                snapshot_fetch.handle_installed(state, event)
            case SnapshotRefused():
                snapshot_fetch.handle_refused(state, event, now_ms)
            case ResignRequested(epoch):
                if isinstance(state.role, LeaderRole) and epoch == state.epoch:
                    to_resigned(state, now_ms, "asked to")
            case ShutdownRequested():
                state.shutting_down = True
            case _:
                assert_never(event)

    def _handle_request(self, token: object, request: Request, now_ms: int) -> None:
        state = self._state
        match request:
            case MetadataFetchRequest():
                leading.handle_fetch(state, token, request, now_ms)
            case VoteRequest():
                election.handle_vote(state, token, request, now_ms)
            case BeginQuorumEpochRequest():
                election.handle_begin_epoch(state, token, request, now_ms)
            case EndQuorumEpochRequest():
                election.handle_end_epoch(state, token, request, now_ms)
            case FetchSnapshotRequest():
                snapshot_fetch.handle_snapshot_fetch(state, token, request, now_ms)
            case AddVoterRequest():
                reconfiguration.handle_add(state, token, request, now_ms)
            case RemoveVoterRequest():
                reconfiguration.handle_remove(state, token, request, now_ms)
            case UpdateVoterRequest():
                reconfiguration.handle_update(state, token, request)
            case UpgradeRequest():
                reconfiguration.handle_upgrade(state, token, request)
            case DescribeRequest():
                leading.handle_describe(state, token, now_ms)
            case VersionsRequest():
                node = state.local.node
                versions = (node.min_kraft_version, node.max_kraft_version)
                state.reply(token, VersionsResponse(error=ErrorCode.none, kraft_versions=versions))
            case _:
                assert_never(request)

    def _handle_response(self, sent: SentRequest, response: Response, now_ms: int) -> bool:
        """Return False if the peer should not be asked the same at once."""
        state = self._state
        match response:
            case MetadataFetchResponse():
                return following.handle_fetch_response(state, sent, response, now_ms)
            case VoteResponse():
                return election.handle_vote_response(state, sent, response, now_ms)
            case BeginQuorumEpochResponse():
                return election.handle_begin_epoch_response(state, sent, response, now_ms)
            case EndQuorumEpochResponse():
                return election.handle_end_epoch_response(state, sent, response, now_ms)
            case FetchSnapshotResponse():
                return snapshot_fetch.handle_snapshot_response(state, sent, response, now_ms)
            case VersionsResponse():
                return reconfiguration.handle_versions_response(state, sent, response, now_ms)
            case VoterChangeResponse():
                membership.handle_voter_change_response(state, sent, response, now_ms)
                return True
            case _:
                state.warn(f"an answer that was not asked for: {type(response).__name__}")
                return False

    def _handle_failure(self, request_id: int, now_ms: int, *, unsupported: bool) -> None:
        state = self._state
        sent = state.requests.finish(request_id)
        if sent is None:
            return
        request = sent.request
        if isinstance(request, VersionsRequest):
            reconfiguration.handle_versions_failure(state, sent.node_id)
        elif isinstance(request, VoteRequest) and request.pre_vote and unsupported:
            if isinstance(state.role, ProspectiveRole):
                election.count_vote(state, sent.node_id, now_ms, granted=True)
        elif isinstance(request, EndQuorumEpochRequest) and state.shutting_down:
            election.give_up_successor(state, sent.node_id)
        else:
            state.requests.pause(sent, now_ms + state.settings.retry_backoff_ms)

    def _handle_appended(self, event: LogAppended, now_ms: int) -> None:
        state = self._state
        for offset, record in event.control:
            if isinstance(record, VotersChange):
                state.history.add_voters(offset, record.voters)
            elif isinstance(record, KRaftVersionChange):
                state.history.add_kraft_version(offset, record.level)
        role = state.role
        if isinstance(role, LeaderRole):
            was_alone = set(role.voters) == {state.key.node_id}
            role.sync_voters(state.voters, now_ms)
            if was_alone:
                # Until now there was no leader to wait for.
                role.check_quorum_deadline_ms = now_ms + state.settings.check_quorum_timeout_ms
            leading.answer_parked(state, role)
        elif isinstance(role, FollowerRole):
            following.handle_appended(state, role, event, now_ms)


def snapshot_content(core: KraftCore, snapshot: OffsetAndEpoch) -> tuple[VoterSet, int]:
    """Return the voters and the kraft.version that a snapshot of this id must hold."""
    last = snapshot.offset - 1
    return core.history.voters_at(last), core.history.kraft_version_at(last)
