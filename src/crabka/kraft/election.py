"""Votes, pre-votes and the announcement and end of an epoch (KIP-595, KIP-853, KIP-996).

A replica votes whether or not its own log says that it is a voter: the candidate may know a newer voter set. What
counts is that the request names this very replica.
"""

from __future__ import annotations

from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import end_of_log
from crabka.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    LeaderHint,
    VoteRequest,
    VoteResponse,
)
from crabka.kraft.requests import SentRequest
from crabka.kraft.roles import CandidateRole, FollowerRole, ProspectiveRole, ResignedRole
from crabka.kraft.settings import LOST_LEADER_STEP_MS, lost_election_backoff_ms, successor_backoff_ms
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import observe, to_candidate, to_follower, to_leader, to_prospective, to_unattached
from crabka.kraft.voters import Peer, ReplicaKey
from crabka.protocol.error_codes import ErrorCode


def handle_vote(state: CoreState, token: object, request: VoteRequest, now_ms: int) -> None:
    """Give or refuse a vote or pre-vote."""
    error = _vote_error(state, request)
    if error is ErrorCode.none:
        error = take_epoch(state, request.epoch, now_ms, f"vote request of {request.candidate}")
    if error is ErrorCode.none and request.epoch > state.epoch:
        to_unattached(state, request.epoch, now_ms, f"vote request of {request.candidate}")
    if error is ErrorCode.none and not _is_for_this_replica(state, request.voter):
        error = ErrorCode.invalid_voter_key
    granted = error is ErrorCode.none and can_grant(state, request)
    if granted and not request.pre_vote and state.election.voted is None:
        to_unattached(state, state.epoch, now_ms, f"vote for {request.candidate}", voted=request.candidate)
    state.reply(token, VoteResponse(error=error, leader=state.hint(), granted=granted))


def can_grant(state: CoreState, request: VoteRequest) -> bool:
    """Whether the rules allow this vote in the current epoch."""
    up_to_date = request.last.recency >= end_of_log(state.log).recency
    if isinstance(state.role, LeaderRole) or state.lost_end is not None:
        return False
    if request.pre_vote:
        # A follower in contact with its leader refuses pre-votes.
        return up_to_date and not (isinstance(state.role, FollowerRole) and state.role.in_contact)
    if state.election.voted is not None:
        return state.election.voted.matches(request.candidate)
    return state.election.leader_id is None and up_to_date


def handle_vote_response(state: CoreState, sent: SentRequest, response: VoteResponse, now_ms: int) -> bool:
    """Count an answer; return False if the peer should be left alone for a moment."""
    epoch = state.epoch
    observe(state, response.leader, now_ms, f"vote response of {sent.node_id}")
    if state.epoch != epoch or not isinstance(state.role, ProspectiveRole | CandidateRole):
        return True
    if response.leader.epoch != epoch or response.error not in (ErrorCode.none, ErrorCode.invalid_voter_key):
        return False
    count_vote(state, sent.node_id, now_ms, granted=response.granted and response.error is ErrorCode.none)
    return True


def count_vote(state: CoreState, voter_id: int, now_ms: int, *, granted: bool) -> None:
    """Record a vote or pre-vote and draw the conclusion if there is one."""
    role = state.role
    if not isinstance(role, ProspectiveRole | CandidateRole):
        return
    role.ballot.record(voter_id, granted=granted)
    if role.ballot.is_won:
        if isinstance(role, ProspectiveRole):
            to_candidate(state, now_ms)
        else:
            to_leader(state, now_ms)
    elif role.ballot.is_lost:
        if isinstance(role, ProspectiveRole):
            lose_pre_vote(state, now_ms, "a majority refused the pre-vote")
        elif role.backoff_until_ms is None:
            wait = lost_election_backoff_ms(state.settings, state.rng, role.retries)
            role.backoff_until_ms = now_ms + wait


def lose_pre_vote(state: CoreState, now_ms: int, reason: str) -> None:
    """Return to the leader that is known, else wait for one."""
    leader_id = state.election.leader_id
    endpoints = () if leader_id is None else state.leader_endpoints()
    if leader_id is not None and endpoints:
        to_follower(state, state.epoch, Peer(leader_id, endpoints), now_ms, reason)
    else:
        to_unattached(state, state.epoch, now_ms, reason)


def handle_begin_epoch(state: CoreState, token: object, request: BeginQuorumEpochRequest, now_ms: int) -> None:
    """A leader announces itself; that restarts the time-out, but only a fetch shows that it works."""
    error = _leadership_error(state, request, now_ms)
    if error is ErrorCode.none:
        error = _follow(state, request.leader_id, request.epoch, request, now_ms)
    if error is ErrorCode.none and isinstance(state.role, FollowerRole):
        state.role.fetch_deadline_ms = now_ms + state.settings.fetch_timeout_ms
    if error is ErrorCode.none and not _is_for_this_replica(state, request.voter):
        error = ErrorCode.invalid_voter_key
    state.reply(token, BeginQuorumEpochResponse(error=error, leader=state.hint()))


def handle_end_epoch(state: CoreState, token: object, request: EndQuorumEpochRequest, now_ms: int) -> None:
    """A leader resigns: the first successor stands at once, the others a little later by their position."""
    error = _leadership_error(state, request, now_ms)
    if error is ErrorCode.none:
        error = _follow(state, request.leader_id, request.epoch, request, now_ms)
    role = state.role
    if error is ErrorCode.none and isinstance(role, FollowerRole) and role.leader.node_id == request.leader_id:
        # There is no leader any more: grant pre-votes.
        role.in_contact = False
        wait = successor_backoff_ms(
            state.settings, state.rng, _position(state.key, request.preferred), len(request.preferred)
        )
        role.fetch_deadline_ms = now_ms + wait
    state.reply(token, EndQuorumEpochResponse(error=error, leader=state.hint()))


def handle_end_epoch_response(
    state: CoreState, sent: SentRequest, response: EndQuorumEpochResponse, now_ms: int
) -> bool:
    """A voter knows that this node resigned; return False to ask again later."""
    observe(state, response.leader, now_ms, f"end epoch response of {sent.node_id}")
    if isinstance(state.role, ResignedRole) and response.error is ErrorCode.none:
        state.role.acknowledged.add(sent.node_id)
    return response.error is ErrorCode.none


def give_up_successor(state: CoreState, node_id: int) -> None:
    """A voter did not receive the resignation: its time-out will detect it, and it is probably down itself."""
    if isinstance(state.role, ResignedRole):
        state.role.acknowledged.add(node_id)


def handle_begin_epoch_response(
    state: CoreState, sent: SentRequest, response: BeginQuorumEpochResponse, now_ms: int
) -> bool:
    """A voter answered the announcement; its fetch is what counts."""
    observe(state, response.leader, now_ms, f"begin epoch response of {sent.node_id}")
    return response.error is ErrorCode.none


def handle_leader_lost(state: CoreState, leader_id: int, now_ms: int) -> None:
    """Ask for pre-votes without waiting for the fetch time-out, since the leader's process is gone.

    The voter of the lowest id stands at once, the others a little later by their position. Only the start of an
    election is early: pre-votes and votes keep every rule.
    """
    role = state.role
    if not isinstance(role, FollowerRole) or role.leader.node_id != leader_id or state.shutting_down:
        return
    role.in_contact = False
    if not state.may_stand:
        return
    position = sum(peer.node_id < state.key.node_id for peer in state.remote_voters() if peer.node_id != leader_id)
    if position == 0:
        to_prospective(state, now_ms, f"connections to leader {leader_id} are refused")
    else:
        role.fetch_deadline_ms = min(role.fetch_deadline_ms, now_ms + position * LOST_LEADER_STEP_MS)


def take_epoch(state: CoreState, epoch: int, now_ms: int, source: str) -> ErrorCode:
    """Return why a request may not raise the epoch so far, NONE if it may: the caller raises it then."""
    if state.epochs.take_request(state.epoch, epoch, now_ms):
        return ErrorCode.none
    text = f"epoch {epoch} of a request is refused, it is too far ahead of {state.epoch}: {source}"
    state.warn_of_peer(text, now_ms)
    return ErrorCode.invalid_request


def _vote_error(state: CoreState, request: VoteRequest) -> ErrorCode:
    if not state.accepts_cluster(request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    last = request.last
    # A candidate's epoch is new; a pre-vote is asked in an epoch that the log may have reached.
    too_high = last.epoch > request.epoch if request.pre_vote else last.epoch >= request.epoch
    if last.offset < 0 or last.epoch < 0 or too_high or request.candidate.node_id < 0:
        return ErrorCode.invalid_request
    if request.epoch < state.epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.none


def _leadership_error(
    state: CoreState, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now_ms: int
) -> ErrorCode:
    if not state.accepts_cluster(request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    if request.epoch < state.epoch:
        return ErrorCode.fenced_leader_epoch
    if request.leader_id < 0:
        return ErrorCode.invalid_request
    known = request.epoch == state.epoch and request.leader_id == state.election.leader_id
    if not known and not state.knows_voter(request.leader_id):
        _note_rumour(state, request, now_ms)
        return ErrorCode.invalid_request
    return take_epoch(state, request.epoch, now_ms, f"leader {request.leader_id}")


def _note_rumour(state: CoreState, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now_ms: int) -> None:
    """Fetch from a leader that is not a known voter, if there is no contact with another: its voters may be newer.

    Its word alone changes neither epoch nor leader, since nothing here explains it.
    """
    text = f"leader {request.leader_id} of epoch {request.epoch} is none of the voters {state.voters}"
    state.warn_of_peer(text, now_ms)
    if request.endpoints and not (isinstance(state.role, FollowerRole) and state.role.in_contact):
        state.rumour = Peer(-2 - len(state.local.bootstrap), request.endpoints)


def _follow(
    state: CoreState,
    leader_id: int,
    epoch: int,
    request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
    now_ms: int,
) -> ErrorCode:
    """Follow the leader that speaks, unless it contradicts what is known."""
    reason = f"leader {leader_id} speaks"
    if not observe(state, LeaderHint(epoch, leader_id, request.endpoints), now_ms, reason):
        return ErrorCode.invalid_request
    if isinstance(state.role, ProspectiveRole) and isinstance(request, BeginQuorumEpochRequest):
        lose_pre_vote(state, now_ms, reason)
    return ErrorCode.none


def _is_for_this_replica(state: CoreState, voter: ReplicaKey | None) -> bool:
    return voter is None or voter.matches(state.key)


def _position(key: ReplicaKey, preferred: tuple[ReplicaKey, ...]) -> int | None:
    return next((index for index, candidate in enumerate(preferred) if candidate.matches(key)), None)
