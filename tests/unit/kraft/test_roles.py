from __future__ import annotations

import pytest

from crabka.kraft.roles import TRANSITIONS, Ballot, IllegalRoleChangeError, RoleName, check_transition
from tests.support.quorum.kraft_bench import voter_set


def test_every_role_is_in_the_table_and_can_be_left_and_reached() -> None:
    assert set(TRANSITIONS) == set(RoleName)
    for role in RoleName:
        assert set(TRANSITIONS[role]) - {role}
        assert any(role in targets for other, targets in TRANSITIONS.items() if other is not role)


def test_only_a_candidate_becomes_leader_and_only_a_leader_resigns() -> None:
    assert [role for role, targets in TRANSITIONS.items() if RoleName.LEADER in targets] == [RoleName.CANDIDATE]
    assert [role for role, targets in TRANSITIONS.items() if RoleName.RESIGNED in targets] == [RoleName.LEADER]
    assert [role for role, targets in TRANSITIONS.items() if RoleName.CANDIDATE in targets] == [RoleName.PROSPECTIVE]


def test_a_change_that_is_not_in_the_table_is_refused() -> None:
    check_transition(1, RoleName.FOLLOWER, RoleName.PROSPECTIVE)
    with pytest.raises(IllegalRoleChangeError, match="replica 1: Follower cannot become Leader"):
        check_transition(1, RoleName.FOLLOWER, RoleName.LEADER)


def test_a_ballot_is_won_or_lost_by_a_majority() -> None:
    ballot = Ballot(voter_set(1, 2, 3), granted={1})
    assert ballot.open_ids == [2, 3]
    ballot.record(2, granted=False)
    assert not ballot.is_won
    assert not ballot.is_lost
    ballot.record(3, granted=False)
    assert ballot.is_lost


def test_the_first_answer_of_a_voter_stands_and_others_do_not_count() -> None:
    ballot = Ballot(voter_set(1, 2, 3), granted={1})
    ballot.record(2, granted=False)
    ballot.record(2, granted=True)
    ballot.record(9, granted=True)
    assert ballot.granted == {1}
    ballot.record(3, granted=True)
    assert ballot.is_won
