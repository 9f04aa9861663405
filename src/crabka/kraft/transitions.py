"""Changes of role and epoch: the only place that sets them.

Within an epoch the vote and the leader, once there, stay. Every change of the election state reaches the disk before
any message that shows it leaves the node; `KraftCore.step` ensures that.
"""

from __future__ import annotations

from crabka.errors import InvariantError, require
from crabka.kraft.actions import (
    AppendControl,
    ControlRecord,
    ElectionState,
    KRaftVersionChange,
    LeaderChange,
    RoleChanged,
    VotersChange,
)
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.messages import LeaderHint, MetadataFetchResponse, VoterChangeResponse
from crabka.kraft.roles import (
    Ballot,
    CandidateRole,
    FollowerRole,
    ProspectiveRole,
    ResignedRole,
    UnattachedRole,
    check_transition,
)
from crabka.kraft.settings import random_election_timeout_ms
from crabka.kraft.state import CoreState, Role
from crabka.kraft.voter_history import BEFORE_THE_LOG
from crabka.kraft.voters import DYNAMIC_VOTERS_VERSION, Peer, ReplicaKey, VoterEndpoint
from crabka.protocol.error_codes import ErrorCode


def become(state: CoreState, role: Role, election: ElectionState, reason: str) -> None:
    """Change role and election. Raises InvariantError if either change is not allowed."""
    check_transition(state.key, state.role.name, role.name)
    check_election(state.election, election)
    before, state.role, state.election = state.role, role, election
    state.requests.reset()
    if isinstance(before, LeaderRole):
        _end_leadership(state, before)
    state.emit(RoleChanged(before.name, role.name, election, reason))


def check_election(before: ElectionState, after: ElectionState) -> None:
    """Raise InvariantError if the epoch goes back, or a vote or a leader is replaced within an epoch."""
    require(after.epoch >= before.epoch, f"the epoch goes back from {before.epoch} to {after.epoch}")
    if after.epoch == before.epoch:
        require(before.voted in (None, after.voted), f"the vote of epoch {after.epoch} changes")
        require(before.leader_id in (None, after.leader_id), f"the leader of epoch {after.epoch} changes")


def to_unattached(state: CoreState, epoch: int, now_ms: int, reason: str, *, voted: ReplicaKey | None = None) -> None:
    """Wait for a leader or an election in `epoch`; a vote given in it starts the waiting time anew."""
    same = epoch == state.epoch
    deadline = now_ms + state.election_wait_ms()
    if voted is None and not same and isinstance(state.role, UnattachedRole | ProspectiveRole | CandidateRole):
        # Only a vote or a leader may put an election off: a stream of new epochs must not.
        deadline = _remaining_deadline(state.role)
    election = ElectionState(
        epoch,
        state.election.leader_id if same else None,
        voted if voted is not None else state.election.voted if same else None,
    )
    become(state, UnattachedRole(deadline), election, reason)


def to_follower(state: CoreState, epoch: int, leader: Peer, now_ms: int, reason: str) -> None:
    """Fetch from a leader; the vote of the epoch stays."""
    require(leader.node_id != state.key.node_id, "a replica cannot follow itself")
    voted = state.election.voted if epoch == state.epoch else None
    state.rumour = None
    role = FollowerRole(
        leader,
        fetch_deadline_ms=now_ms + state.settings.fetch_timeout_ms,
        update_at_ms=now_ms + state.settings.update_voter_period_ms,
    )
    become(state, role, ElectionState(epoch, leader.node_id, voted), reason)


def to_prospective(state: CoreState, now_ms: int, reason: str, *, retries: int = 0) -> None:
    """Ask for pre-votes; a lone voter has its majority at once."""
    require(state.may_stand, "an observer cannot stand for election")
    ballot = _own_ballot(state)
    deadline = now_ms + random_election_timeout_ms(state.settings, state.rng)
    become(state, ProspectiveRole(ballot, deadline, retries), state.election, reason)
    if ballot.is_won:
        to_candidate(state, now_ms)


def to_candidate(state: CoreState, now_ms: int) -> None:
    """Stand for election in the next epoch with the own vote."""
    before = state.role
    if not isinstance(before, ProspectiveRole) or not before.ballot.is_won:
        raise InvariantError("a replica stands without a majority of pre-votes")
    ballot = _own_ballot(state)
    deadline = now_ms + random_election_timeout_ms(state.settings, state.rng)
    require(state.epoch < MAX_EPOCH, f"there is no epoch above {MAX_EPOCH}")
    election = ElectionState(state.epoch + 1, None, state.key)
    become(state, CandidateRole(ballot, deadline, before.retries + 1), election, "majority of pre-votes")
    if ballot.is_won:
        to_leader(state, now_ms)


def to_leader(state: CoreState, now_ms: int) -> None:
    """Lead the epoch: its first batch is the LeaderChange, with the voters if the log does not hold them yet."""
    before = state.role
    if not isinstance(before, CandidateRole) or not before.ballot.is_won:
        raise InvariantError("a replica leads without a majority of votes")
    reported = state.voters.maybe_update(state.local.node) or state.voters
    role = LeaderRole(
        state.key,
        epoch_start_offset=state.log.end_offset,
        check_quorum_deadline_ms=now_ms + state.settings.check_quorum_timeout_ms,
        reported_voters=reported,
    )
    role.sync_voters(state.voters, now_ms)
    voted = state.election.voted
    become(state, role, ElectionState(state.epoch, state.key.node_id, voted), "majority of votes")
    ids = tuple(sorted(state.voters.ids))
    records: list[ControlRecord] = [LeaderChange(state.key.node_id, ids, tuple(sorted(before.ballot.granted)))]
    unwritten = state.history.voters_offset == BEFORE_THE_LOG
    if state.history.kraft_version >= DYNAMIC_VOTERS_VERSION and (
        unwritten or state.voters.needs_update(state.local.node)
    ):
        records += [KRaftVersionChange(state.history.kraft_version), VotersChange(reported)]
    state.emit(AppendControl(state.epoch, state.log.end_offset, tuple(records)))


def to_resigned(state: CoreState, now_ms: int, reason: str) -> None:
    """Stop leading and hand over to the voter with the most complete log."""
    before = state.role
    if not isinstance(before, LeaderRole):
        raise InvariantError("only a leader resigns")
    preferred = tuple(before.followers_by_end_offset())
    deadline = now_ms + random_election_timeout_ms(state.settings, state.rng)
    role = ResignedRole(deadline, tuple(state.remote_voters()), preferred)
    become(state, role, state.election, reason)


def observe(state: CoreState, hint: LeaderHint, now_ms: int, reason: str) -> bool:
    """Take what a peer says of epoch and leader; return whether it fits what this replica knows."""
    if hint.epoch < state.epoch:
        return True
    if not state.epochs.allows_response(state.epoch, hint.epoch):
        state.warn_of_peer(f"epoch {hint.epoch} is ignored, it is too far ahead of {state.epoch}: {reason}", now_ms)
        return False
    leader_id = hint.leader_id
    if leader_id == state.key.node_id:
        # Only this node knows its own leadership; a peer may still report an epoch that it led before its restart.
        if hint.epoch > state.epoch:
            state.warn(f"a peer says that this node leads epoch {hint.epoch}, which it does not know")
            return False
        return state.election.leader_id == leader_id
    if hint.epoch == state.epoch and None not in (leader_id, state.election.leader_id):
        if leader_id != state.election.leader_id:
            state.warn(f"epoch {hint.epoch} has two leaders: {leader_id} and {state.election.leader_id}")
            return False
        return _maybe_attach(state, hint, now_ms, reason)
    if hint.epoch > state.epoch or leader_id is not None:
        _adopt(state, hint, now_ms, reason)
    return True


def _maybe_attach(state: CoreState, hint: LeaderHint, now_ms: int, reason: str) -> bool:
    """The known leader of this epoch is named again: follow it if this replica does not yet."""
    if isinstance(state.role, UnattachedRole):
        _adopt(state, hint, now_ms, reason)
    elif isinstance(state.role, FollowerRole) and len(hint.endpoints) > len(state.role.leader.endpoints):
        state.role.leader = Peer(state.role.leader.node_id, hint.endpoints)
    return True


def _adopt(state: CoreState, hint: LeaderHint, now_ms: int, reason: str) -> None:
    endpoints: tuple[VoterEndpoint, ...] = hint.endpoints
    if hint.leader_id is not None:
        endpoints = endpoints or state.voters.endpoints_of(hint.leader_id)
        if endpoints:
            to_follower(state, hint.epoch, Peer(hint.leader_id, endpoints), now_ms, reason)
            return
    if hint.epoch > state.epoch:
        to_unattached(state, hint.epoch, now_ms, reason)


def _own_ballot(state: CoreState) -> Ballot:
    """Return a ballot with the own vote, if it counts."""
    return Ballot(state.voters, granted={state.key.node_id} if state.is_voter else set())


def _remaining_deadline(role: UnattachedRole | ProspectiveRole | CandidateRole) -> int:
    return role.election_deadline_ms if isinstance(role, UnattachedRole) else role.deadline_ms


def _end_leadership(state: CoreState, role: LeaderRole) -> None:
    """Answer all requests that wait for this leader."""
    error = ErrorCode.not_leader_or_follower
    for parked in role.parked:
        state.reply(parked.token, MetadataFetchResponse(error=error, leader=state.hint()))
    if role.pending is not None and role.pending.token is not None:
        message = "this node stopped to lead before the change was committed"
        state.reply(role.pending.token, VoterChangeResponse(error=error, leader=state.hint(), message=message))
