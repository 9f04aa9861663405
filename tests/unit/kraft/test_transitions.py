from __future__ import annotations

import pytest

from crabka.errors import InvariantError
from crabka.kraft.actions import (
    AppendControl,
    ElectionState,
    KRaftVersionChange,
    LeaderChange,
    RoleChanged,
    VotersChange,
    Warn,
)
from crabka.kraft.messages import LeaderHint
from crabka.kraft.roles import IllegalRoleChangeError, RoleName, UnattachedRole
from crabka.kraft.transitions import become, check_election, observe, to_follower, to_leader, to_prospective
from crabka.kraft.voters import Peer
from tests.support.quorum.kraft_bench import CoreBench, voter, voter_set


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (ElectionState(4), "goes back"),
        (ElectionState(5, 2, voter(3).key), "vote of epoch 5 changes"),
        (ElectionState(5, 2, None), "vote of epoch 5 changes"),
        (ElectionState(5, 3, voter(2).key), "leader of epoch 5 changes"),
        (ElectionState(5, None, voter(2).key), "leader of epoch 5 changes"),
    ],
)
def test_an_epoch_keeps_its_vote_and_leader(after: ElectionState, message: str) -> None:
    before = ElectionState(5, 2, voter(2).key)
    check_election(before, ElectionState(6))
    check_election(ElectionState(5), before)
    with pytest.raises(InvariantError, match=message):
        check_election(before, after)


def test_an_illegal_change_leaves_everything_as_it_is() -> None:
    bench = CoreBench()
    bench.lead()
    state = bench.core._state
    role = state.role
    with pytest.raises(IllegalRoleChangeError):
        to_prospective(state, 0, "no reason")
    assert state.role is role
    with pytest.raises(InvariantError, match="without a majority"):
        to_leader(state, 0)
    with pytest.raises(InvariantError, match="follow itself"):
        to_follower(state, 9, Peer(1, ()), 0, "mirror")


def test_an_observer_cannot_stand() -> None:
    with pytest.raises(InvariantError, match="observer"):
        to_prospective(CoreBench(voters=(2, 3)).core._state, 0, "ambition")


def test_the_first_leader_writes_the_formatted_voters_into_the_log() -> None:
    bench = CoreBench()
    bench.lead()
    change, level, voters = bench.of(AppendControl)[0].records
    assert change == LeaderChange(1, (1, 2, 3), (1, 2))
    assert (level, voters) == (KRaftVersionChange(1), VotersChange(voter_set(1, 2, 3)))


def test_a_leader_below_version_1_writes_only_the_leader_change() -> None:
    bench = CoreBench(level=0)
    bench.lead()
    assert len(bench.of(AppendControl)[0].records) == 1


def test_every_change_is_reported_with_its_reason() -> None:
    bench = CoreBench()
    bench.follow(2, 3)
    reported = bench.of(RoleChanged)[0]
    assert (reported.before, reported.after) == (RoleName.UNATTACHED, RoleName.FOLLOWER)
    assert reported.election == ElectionState(3, 2)
    assert reported.reason == "leader 2 speaks"


def test_a_leader_without_known_endpoints_is_not_followed() -> None:
    bench = CoreBench()
    assert observe(bench.core._state, LeaderHint(3, 77), 0, "rumour")
    assert bench.role() is RoleName.UNATTACHED
    assert bench.core.epoch == 3
    assert observe(bench.core._state, LeaderHint(3, 77, voter(7).endpoints), 0, "rumour")
    assert bench.state.leader_id == 77


def test_a_rumour_of_the_own_leadership_is_not_believed() -> None:
    bench = CoreBench()
    state = bench.core._state
    assert not observe(state, LeaderHint(3, 1), 0, "rumour")
    assert any(isinstance(action, Warn) for action in state.actions)
    assert observe(state, LeaderHint(-1, 1), 0, "old rumour")
    assert bench.core.epoch == 0


def test_more_endpoints_of_the_leader_are_kept() -> None:
    bench = CoreBench()
    bench.follow(2, 3)
    endpoints = voter(2).endpoints + voter(8).endpoints
    observe(bench.core._state, LeaderHint(3, 2, endpoints), 0, "news")
    assert bench.core.leader.endpoints == endpoints


def test_new_epochs_do_not_put_an_election_off_but_a_vote_does() -> None:
    bench = CoreBench()
    state = bench.core._state
    assert isinstance(state.role, UnattachedRole)
    deadline = state.role.election_deadline_ms
    observe(state, LeaderHint(3), bench.now_ms + 900, "rumour")
    assert isinstance(state.role, UnattachedRole)
    assert state.role.election_deadline_ms == deadline
    become(state, UnattachedRole(5), ElectionState(4), "test")
    assert bench.core.epoch == 4
