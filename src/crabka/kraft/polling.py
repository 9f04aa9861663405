"""What a replica does by itself as time passes: time-outs of its role, and the requests that are due.

`poll` runs at the end of every step; `next_deadline_ms` returns when it must run again without an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from crabka.kraft.election import lose_pre_vote
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.following import build_fetch, may_fetch
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.leading import expire_parked
from crabka.kraft.log_view import end_of_log
from crabka.kraft.membership import own_voter_request
from crabka.kraft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    MetadataFetchRequest,
    VoteRequest,
)
from crabka.kraft.reconfiguration import expire_change
from crabka.kraft.roles import CandidateRole, FollowerRole, ProspectiveRole, ResignedRole, UnattachedRole
from crabka.kraft.snapshot_fetch import build_snapshot_fetch
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import to_prospective, to_resigned, to_unattached
from crabka.kraft.voters import Peer

# Roles change at most a few times in one step: time-out, pre-vote, vote, leader.
_MAX_ROUNDS = 8


def poll(state: CoreState, now_ms: int) -> None:
    """Let the role act until it rests."""
    _warn_of_last_epoch(state)
    state.requests.end_pauses(now_ms)
    for _ in range(_MAX_ROUNDS):
        role = state.role
        _poll_role(state, now_ms)
        if state.role is role or state.log_is_changing:
            return


def next_deadline_ms(state: CoreState, now_ms: int) -> int | None:
    """Return when something is due without an event, None if never."""
    times = [time for time in _deadlines(state) if time > now_ms]
    retry = state.requests.next_retry_ms
    return min([*times, retry] if retry is not None else times, default=None)


def _warn_of_last_epoch(state: CoreState) -> None:
    if state.epoch >= MAX_EPOCH and not state.warned_of_last_epoch:
        state.warned_of_last_epoch = True
        state.warn(
            f"this node cannot stand for election: its epoch {state.epoch} is the largest that there is. Stop it and "
            "run `crabka quorum repair`, on every voter that says so"
        )


def _poll_role(state: CoreState, now_ms: int) -> None:
    match state.role:
        case UnattachedRole() as role:
            _poll_unattached(state, role, now_ms)
        case FollowerRole() as role:
            _poll_follower(state, role, now_ms)
        case ProspectiveRole() as role:
            if role.deadline_ms <= now_ms:
                lose_pre_vote(state, now_ms, "too few pre-votes in time")
            elif not role.ballot.is_lost:
                _ask_for_votes(state, role)
        case CandidateRole() as role:
            _poll_candidate(state, role, now_ms)
        case LeaderRole() as role:
            _poll_leader(state, role, now_ms)
        case ResignedRole() as role:
            _poll_resigned(state, role, now_ms)
        case _:
            assert_never(state.role)


def _deadlines(state: CoreState) -> Iterator[int]:
    match state.role:
        case UnattachedRole() as role:
            if state.may_stand and not state.shutting_down:
                yield role.election_deadline_ms
        case FollowerRole() as role:
            yield role.fetch_deadline_ms
            if own_voter_request(state, role) is not None:
                yield role.update_at_ms
        case ProspectiveRole() as role:
            yield role.deadline_ms
        case CandidateRole() as role:
            yield role.deadline_ms if role.backoff_until_ms is None else role.backoff_until_ms
        case LeaderRole() as role:
            if not state.is_only_voter:
                yield role.check_quorum_deadline_ms
            if role.pending is not None:
                yield role.pending.deadline_ms
            yield from (parked.deadline_ms for parked in role.parked)
            yield from (role.voters[peer.node_id].begin_at_ms for peer in state.remote_voters())
        case ResignedRole() as role:
            if not state.shutting_down:
                yield role.deadline_ms
        case _:
            assert_never(state.role)


def _poll_unattached(state: CoreState, role: UnattachedRole, now_ms: int) -> None:
    if state.may_stand and not state.shutting_down and role.election_deadline_ms <= now_ms:
        to_prospective(state, now_ms, "election time-out")
        return
    _ask_anybody(state)


def _poll_follower(state: CoreState, role: FollowerRole, now_ms: int) -> None:
    if role.fetch_deadline_ms <= now_ms:
        if state.may_stand and not state.shutting_down:
            to_prospective(state, now_ms, "fetch time-out")
            return
        # An observer cannot elect, but any voter may know a newer leader.
        _ask_anybody(state)
    if role.update_at_ms <= now_ms:
        request = own_voter_request(state, role)
        if request is not None:
            role.update_at_ms = now_ms + state.settings.update_voter_period_ms
            if state.requests.is_ready(role.leader.node_id, type(request)):
                state.send(role.leader, request)
    _fetch(state, role)


def _fetch(state: CoreState, role: FollowerRole) -> None:
    if state.requests.is_under_way(MetadataFetchRequest, FetchSnapshotRequest) or not may_fetch(state):
        return
    download = role.download
    if download is None:
        if state.requests.is_ready(role.leader.node_id, MetadataFetchRequest):
            state.send(role.leader, build_fetch(state))
    elif not download.installing and state.requests.is_ready(role.leader.node_id, FetchSnapshotRequest):
        state.send(role.leader, build_snapshot_fetch(state, download))


def _ask_anybody(state: CoreState) -> None:
    """Fetch from some voter or bootstrap address: its answer names the leader."""
    if state.requests.is_under_way(MetadataFetchRequest, FetchSnapshotRequest) or not may_fetch(state):
        return
    peers = state.remote_voters()
    peers += [
        Peer(-2 - index, (endpoint,))
        for index, endpoint in enumerate(state.local.bootstrap)
        if endpoint not in state.local.node.endpoints
    ]
    if state.rumour is not None:
        peers.append(state.rumour)
    ready = [peer for peer in peers if state.requests.is_ready(peer.node_id, MetadataFetchRequest)]
    if ready:
        state.send(ready[state.rng.below(len(ready))], build_fetch(state))


def _ask_for_votes(state: CoreState, role: ProspectiveRole | CandidateRole) -> None:
    for voter_id in role.ballot.open_ids:
        node = role.ballot.voters.get(voter_id)
        if node is None or not state.requests.is_ready(voter_id, VoteRequest):
            continue
        request = VoteRequest(
            cluster_id=state.local.cluster_id,
            candidate=state.key,
            epoch=state.epoch,
            last=end_of_log(state.log),
            voter=node.key,
            pre_vote=isinstance(role, ProspectiveRole),
        )
        state.send(Peer(voter_id, node.endpoints), request)


def _poll_candidate(state: CoreState, role: CandidateRole, now_ms: int) -> None:
    if role.backoff_until_ms is not None:
        if role.backoff_until_ms <= now_ms:
            to_prospective(state, now_ms, "election lost", retries=role.retries)
    elif role.deadline_ms <= now_ms:
        to_prospective(state, now_ms, "election timed out", retries=role.retries)
    else:
        _ask_for_votes(state, role)


def _poll_leader(state: CoreState, role: LeaderRole, now_ms: int) -> None:
    if state.shutting_down:
        to_resigned(state, now_ms, "shutting down")
        return
    if not state.is_only_voter and role.check_quorum_deadline_ms <= now_ms:
        to_resigned(state, now_ms, "a majority does not fetch")
        return
    expire_change(state, role, now_ms)
    expire_parked(state, role, now_ms)
    for peer in state.remote_voters():
        progress = role.voters[peer.node_id]
        if progress.begin_at_ms > now_ms:
            continue
        progress.begin_at_ms = now_ms + state.settings.begin_quorum_period_ms
        if state.requests.is_ready(peer.node_id, BeginQuorumEpochRequest):
            request = BeginQuorumEpochRequest(
                cluster_id=state.local.cluster_id,
                leader_id=state.key.node_id,
                epoch=state.epoch,
                voter=progress.key,
                endpoints=state.local.node.endpoints,
            )
            state.send(peer, request)


def _poll_resigned(state: CoreState, role: ResignedRole, now_ms: int) -> None:
    if role.deadline_ms <= now_ms and not state.shutting_down and state.epoch < MAX_EPOCH:
        if state.is_only_voter:
            to_prospective(state, now_ms, "the only voter")
            return
        # The next epoch, so that no response names this node as leader.
        to_unattached(state, state.epoch + 1, now_ms, "resigned long enough")
        return
    for peer in role.successors:
        if peer.node_id in role.acknowledged or not state.requests.is_ready(peer.node_id, EndQuorumEpochRequest):
            continue
        request = EndQuorumEpochRequest(
            cluster_id=state.local.cluster_id,
            leader_id=state.key.node_id,
            epoch=state.epoch,
            preferred=role.preferred,
            endpoints=state.local.node.endpoints,
        )
        state.send(peer, request)
