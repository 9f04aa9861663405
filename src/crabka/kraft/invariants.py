"""Facts about one replica that hold between steps; the simulation checks them after every one."""

from __future__ import annotations

from crabka.errors import require
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import LogView
from crabka.kraft.roles import CandidateRole, FollowerRole, ProspectiveRole, ResignedRole
from crabka.kraft.state import CoreState


def check_invariants(state: CoreState) -> None:
    """Raise InvariantError unless role, election, log and high watermark fit together."""
    _check_role(state)
    log = state.log
    require(log.last_epoch <= state.epoch, f"the log has epoch {log.last_epoch}, the replica only {state.epoch}")
    require(state.flushed_offset <= log.end_offset, "more is durable than there is")
    if state.high_watermark is not None:
        require(state.high_watermark <= log.end_offset, "the high watermark is above the log end")
    require(state.history.voters_offset < max(1, log.end_offset), "the voters come from a record that is gone")
    if state.lost_end is not None:
        voting = isinstance(state.role, LeaderRole | ProspectiveRole | CandidateRole)
        require(not voting, "a replica that lost durable entries stands or leads")
    check_log_start(log, state.high_watermark)


def check_log_start(log: LogView, high_watermark: int | None) -> None:
    """Log start ≤ end of the newest snapshot ≤ high watermark; a log start above 0 has such a snapshot."""
    newest = log.latest_snapshot
    if newest is None:
        require(log.start_offset == 0, "the log has lost its start and has no snapshot")
        return
    require(log.start_offset <= newest.offset, "there is a gap between the newest snapshot and the log")
    require(newest.offset <= (high_watermark or 0), "a snapshot holds what is not committed")


def _check_role(state: CoreState) -> None:
    role, election = state.role, state.election
    own_id = state.key.node_id
    match role:
        case LeaderRole():
            require(election.leader_id == own_id, "a leader does not know that it leads")
            require(election.voted == state.key, "a leader did not vote for itself")
            require(role.epoch_start_offset <= state.log.end_offset, "a leader lost the start of its epoch")
            require(set(role.voters) == set(state.voters.ids), "a leader counts others than the voters")
            require(own_id not in role.fetched, "a leader counts itself as a follower")
        case ResignedRole():
            require(election.leader_id == own_id, "a resigned replica did not lead")
        case FollowerRole():
            require(election.leader_id == role.leader.node_id != own_id, "a follower follows another node")
        case CandidateRole():
            require(election.voted == state.key and election.leader_id is None, "a candidate is not its own")
        case ProspectiveRole():
            require(not role.ballot.is_won, "a replica with a majority of pre-votes does not stand")
        case _:
            require(election.leader_id != own_id, "a leader forgot that it leads")
