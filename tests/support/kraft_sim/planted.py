"""Bugs to plant in the core or in its driver: each takes away one rule, and the simulation must notice.

A bug is a function that patches; a test plants it through pytest's monkeypatch.
"""

from __future__ import annotations

from typing import Any

import pytest

from crabka.kraft import election, following, leading, reconfiguration, transitions
from crabka.kraft.actions import Action, PersistElection
from crabka.kraft.core import KraftCore
from crabka.kraft.events import Event
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import LogView, OffsetAndEpoch
from crabka.kraft.messages import VoteRequest
from crabka.kraft.roles import CandidateRole, ProspectiveRole
from crabka.kraft.state import CoreState
from crabka.kraft.voter_history import VoterHistory
from tests.support.kraft_sim.disk import SimulatedDisk
from tests.support.kraft_sim.replica import SimulatedReplica


def forget_the_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vote does not reach the disk."""
    execute = SimulatedReplica._execute

    def forgetful(replica: SimulatedReplica, core: KraftCore, action: Action) -> list[Event]:
        if isinstance(action, PersistElection):
            action = PersistElection(action.state._replace(voted=None), action.then)
        return execute(replica, core, action)

    monkeypatch.setattr(SimulatedReplica, "_execute", forgetful)


def answer_before_quorum_state_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PersistElection holds back leaves before the write."""
    execute = SimulatedReplica._execute

    def hasty(replica: SimulatedReplica, core: KraftCore, action: Action) -> list[Event]:
        if not isinstance(action, PersistElection):
            return execute(replica, core, action)
        events = [event for inner in action.then for event in execute(replica, core, inner)]
        return [*events, *execute(replica, core, PersistElection(action.state))]

    monkeypatch.setattr(SimulatedReplica, "_execute", hasty)


def skip_fsync_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reports a sync that it did not make."""
    done = SimulatedReplica.sync_done

    def lie(replica: SimulatedReplica, generation: int, end_offset: int) -> None:
        synced = replica.disk.log.synced_offset
        done(replica, generation, end_offset)
        replica.disk.log.synced_offset = min(synced, replica.disk.log.end_offset)

    monkeypatch.setattr(SimulatedReplica, "sync_done", lie)


def fetch_before_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower claims what is not durable yet."""
    monkeypatch.setattr("crabka.kraft.polling.may_fetch", lambda _state: True)


def count_the_leader_before_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader counts its own log end instead of what is durable."""
    advance = leading.advance_high_watermark

    def hasty(state: CoreState, now_ms: int) -> None:
        flushed, state.flushed_offset = state.flushed_offset, state.log.end_offset
        advance(state, now_ms)
        state.flushed_offset = flushed

    monkeypatch.setattr(leading, "advance_high_watermark", hasty)


def commit_earlier_epochs_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raft's figure 8: a leader commits entries of other epochs because a majority has them."""

    def too_early(role: LeaderRole, offset: int) -> bool:
        return offset >= 0 and (role.high_watermark is None or offset > role.high_watermark)

    monkeypatch.setattr(leading, "may_commit", too_early)


def count_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark counts the furthest replica, voter or not."""
    honest = LeaderRole.majority_offset

    def generous(role: LeaderRole, own_end_offset: int) -> int:
        observed = [progress.end_offset for progress in role.observers.values()]
        return max([honest(role, own_end_offset), *(min(own_end_offset, end) for end in observed)])

    monkeypatch.setattr(LeaderRole, "majority_offset", generous)


def count_a_removed_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that is no voter counts itself as one."""
    honest = LeaderRole.majority_offset

    def vain(role: LeaderRole, own_end_offset: int) -> int:
        if role.is_voter(role.key):
            return honest(role, own_end_offset)
        ends = sorted([own_end_offset, *(progress.end_offset for progress in role.voters.values())], reverse=True)
        return ends[len(role.voters) // 2]

    monkeypatch.setattr(LeaderRole, "majority_offset", vain)


def lead_without_a_real_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path for a lost leader takes pre-votes for votes."""
    honest = election.handle_leader_lost

    def hasty(state: CoreState, leader_id: int, now_ms: int) -> None:
        honest(state, leader_id, now_ms)
        if isinstance(state.role, ProspectiveRole):
            state.role.ballot.granted = set(state.voters.ids)
            transitions.to_candidate(state, now_ms)
        if isinstance(state.role, CandidateRole):
            state.role.ballot.granted = set(state.voters.ids)
            transitions.to_leader(state, now_ms)

    monkeypatch.setattr(election, "handle_leader_lost", hasty)


def vote_for_a_shorter_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote goes to the first candidate."""

    def careless(state: CoreState, request: VoteRequest) -> bool:
        if isinstance(state.role, LeaderRole):
            return False
        return request.pre_vote or state.election.voted in (None, request.candidate)

    monkeypatch.setattr(election, "can_grant", careless)


def cut_where_the_leader_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower trusts the leader's offset although its own log left that epoch earlier."""

    def careless(log: LogView, diverging: OffsetAndEpoch) -> int:
        return min(log.end_offset, diverging.offset)

    monkeypatch.setattr(following, "truncation_offset", careless)


def never_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower keeps what the leader does not have."""

    def stubborn(log: LogView, diverging: OffsetAndEpoch) -> int:
        return log.end_offset

    monkeypatch.setattr(following, "truncation_offset", stubborn)


def keep_voters_of_a_cut_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncated voter record stays in force."""
    monkeypatch.setattr(VoterHistory, "truncate", lambda _history, _end_offset: None)


def change_voters_before_committing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader changes voters without a commit in its epoch and with another change under way."""
    honest = reconfiguration._refusal

    def reckless(state: CoreState, cluster_id: str | None) -> reconfiguration.Refusal | None:
        if isinstance(state.role, LeaderRole) and state.history.kraft_version > 0:
            return None
        return honest(state, cluster_id)

    monkeypatch.setattr(reconfiguration, "_refusal", reckless)


def trust_an_old_log_after_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted leader leads on in its epoch, whose records may be lost."""
    start = SimulatedReplica.start

    def lead_on(replica: SimulatedReplica) -> None:
        start(replica)
        core = replica.core
        if core is not None and core.election.leader_id == replica.key.node_id and core.is_voter:
            state = core._state
            state.role = LeaderRole(replica.key, replica.disk.log.end_offset - 1, 10**9, core.voters)
            state.role.sync_voters(core.voters, 0)

    monkeypatch.setattr(SimulatedReplica, "start", lead_on)


def lose_voters_after_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A starting node takes the voters of its formatting, not those of its log."""
    monkeypatch.setattr(
        SimulatedDisk, "history", lambda disk: VoterHistory(disk.first_voters, disk.first_kraft_version)
    )


def ignore_the_durable_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that lost durable entries votes and stands as if its log were all it ever had."""
    honest = KraftCore.__init__

    def careless(core: KraftCore, *args: Any, **kwargs: Any) -> None:
        honest(core, *args, **{**kwargs, "durable_end": None})

    monkeypatch.setattr(KraftCore, "__init__", careless)


def forget_the_loss_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The note follows a log that lacks entries, so that the next start finds nothing missing."""
    start = SimulatedReplica.start

    def forgetful(replica: SimulatedReplica) -> None:
        start(replica)
        replica.disk.log.note = replica.disk.log.end

    monkeypatch.setattr(SimulatedReplica, "start", forgetful)


def vote_without_the_lost_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that lost durable entries does not stand, but votes."""
    honest = election.can_grant

    def generous(state: CoreState, request: VoteRequest) -> bool:
        lost, state.lost_end = state.lost_end, None
        try:
            return honest(state, request)
        finally:
            state.lost_end = lost

    monkeypatch.setattr(election, "can_grant", generous)


PLANTED = [
    forget_the_vote,
    answer_before_quorum_state_is_durable,
    skip_fsync_of_the_log,
    fetch_before_fsync,
    count_the_leader_before_fsync,
    commit_earlier_epochs_by_counting,
    count_observers,
    count_a_removed_leader,
    lead_without_a_real_vote,
    vote_for_a_shorter_log,
    cut_where_the_leader_says,
    never_truncate,
    keep_voters_of_a_cut_log,
    change_voters_before_committing,
    trust_an_old_log_after_restart,
    lose_voters_after_restart,
    ignore_the_durable_end,
    forget_the_loss_at_a_restart,
    vote_without_the_lost_entries,
]
