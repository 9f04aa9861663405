from __future__ import annotations

import pytest

from crabka.kraft.leader_role import LeaderRole, Progress
from crabka.kraft.voters import ReplicaKey, VoterSet, without_directory_ids
from tests.support.quorum.kraft_bench import voter, voter_set


def role_of(voters: VoterSet, key: ReplicaKey | None = None) -> LeaderRole:
    role = LeaderRole(key or voter(1).key, epoch_start_offset=0, check_quorum_deadline_ms=100, reported_voters=voters)
    role.sync_voters(voters, 0)
    return role


@pytest.mark.parametrize(
    ("own", "others", "offset"),
    [(10, [5, 3], 5), (10, [12, 3], 10), (10, [-1, -1], -1), (10, [9, 8, 7, 6], 8), (10, [4], 4), (10, [6, 6, 5], 6)],
)
def test_the_majority_offset_is_held_by_a_majority(own: int, others: list[int], offset: int) -> None:
    role = role_of(voter_set(*range(1, len(others) + 2)))
    for node_id, end_offset in enumerate(others, start=2):
        role.voters[node_id].end_offset = end_offset
    assert role.majority_offset(own) == offset


def test_a_leader_that_is_no_voter_does_not_count_itself() -> None:
    role = role_of(voter_set(2, 3))
    role.voters[2].end_offset, role.voters[3].end_offset = 7, 4
    assert role.majority_offset(99) == 4
    assert role_of(VoterSet()).majority_offset(99) == -1


def test_replicas_keep_their_progress_when_the_voters_change() -> None:
    role = role_of(voter_set(1, 2, 3))
    role.voters[3].end_offset = 5
    role.progress_of(voter(4).key, 0).end_offset = 6
    role.sync_voters(voter_set(1, 2, 4), 9)
    assert role.voters[4].end_offset == 6
    assert role.observers[voter(3).key].end_offset == 5
    assert voter(4).key not in role.observers


def test_a_voter_that_gets_its_directory_id_keeps_its_progress() -> None:
    role = role_of(without_directory_ids(voter_set(1, 2)))
    role.progress_of(voter(2).key, 0).end_offset = 5
    role.sync_voters(voter_set(1, 2), 9)
    assert (role.voters[2].end_offset, role.voters[2].key) == (5, voter(2).key)
    assert not role.observers


def test_a_majority_that_fetches_puts_the_resignation_off() -> None:
    role = role_of(voter_set(1, 2, 3, 4, 5))
    role.note_heard(voter(2).key, 50, 100)
    role.note_heard(voter(2).key, 60, 100)
    role.note_heard(voter(9).key, 60, 100)
    assert role.check_quorum_deadline_ms == 100
    role.note_heard(voter(3).key, 70, 100)
    assert role.check_quorum_deadline_ms == 170


def test_a_leader_that_is_no_voter_needs_a_majority_of_others() -> None:
    role = role_of(voter_set(2, 3))
    role.note_heard(voter(2).key, 50, 100)
    assert role.check_quorum_deadline_ms == 100
    role.note_heard(voter(3).key, 50, 100)
    assert role.check_quorum_deadline_ms == 150


def test_successors_are_ordered_by_their_logs() -> None:
    role = role_of(voter_set(1, 2, 3))
    role.voters[3].end_offset = 5
    assert role.followers_by_end_offset() == [voter(3).key, voter(2).key]


def test_a_replica_is_caught_up_at_the_end_or_at_the_end_of_the_fetch_before() -> None:
    progress = Progress(voter(2).key, begin_at_ms=0)
    progress.record_fetch(5, 10, 100)
    assert progress.last_caught_up_ms == -1
    progress.record_fetch(10, 20, 200)
    assert progress.last_caught_up_ms == 100
    progress.record_fetch(20, 20, 300)
    assert (progress.last_caught_up_ms, progress.last_fetch_ms, progress.end_offset) == (300, 300, 20)
