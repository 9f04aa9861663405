from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.errors import InvariantError
from crabka.ids import ZERO_UUID
from crabka.kraft.voters import ReplicaKey, VoterSet, without_directory_ids
from tests.support.quorum.kraft_bench import voter, voter_set


def test_a_replica_with_another_disk_is_another_replica() -> None:
    assert not voter(1).key.matches(ReplicaKey(1, voter(2).directory_id))
    assert ReplicaKey(1).matches(voter(1).key)
    assert not ReplicaKey(1).matches(voter(2).key)
    assert str(ReplicaKey(1)) == "1"
    assert str(voter(1).key) == "1:0065"


def test_voters_are_ordered_and_unique() -> None:
    assert [node.voter_id for node in VoterSet((voter(3), voter(1))).nodes] == [1, 3]
    assert str(voter_set(1, 2)) == "{1:0065, 2:0066}"
    with pytest.raises(InvariantError, match="twice"):
        VoterSet((voter(1), voter(1)))


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    assert voter_set(*range(count)).majority == majority


def test_a_node_id_is_added_once() -> None:
    assert voter_set(1).maybe_add(voter(2)) == voter_set(1, 2)
    assert voter_set(1, 2).maybe_add(replace(voter(2), directory_id=voter(9).directory_id)) is None


def test_only_exactly_this_replica_is_removed() -> None:
    voters = voter_set(1, 2)
    assert voters.maybe_remove(voter(2).key) == voter_set(1)
    assert voters.maybe_remove(ReplicaKey(2, voter(9).directory_id)) is None
    assert voters.maybe_remove(voter(3).key) is None


def test_a_voter_is_updated_in_place() -> None:
    moved = replace(voter(2), endpoints=voter(7).endpoints)
    voters = voter_set(1, 2)
    assert voters.needs_update(moved)
    updated = voters.maybe_update(moved)
    assert updated is not None
    assert updated.endpoints_of(2) == voter(7).endpoints
    assert not updated.needs_update(moved)
    assert voters.maybe_update(voter(3)) is None
    assert not voters.needs_update(voter(3))
    assert voters.endpoints_of(3) == ()


def test_voters_of_a_config_match_by_node_id() -> None:
    voters = without_directory_ids(voter_set(1, 2))
    assert voters.nodes[0].directory_id == ZERO_UUID
    assert voters.is_voter(voter(1).key)
    assert voters.changed_voters(voter_set(1, 2)) == 4
    assert voter_set(1, 2).changed_voters(voter_set(1, 2, 3)) == 1


def test_a_level_needs_every_voter() -> None:
    old = replace(voter(2), max_kraft_version=0)
    assert voter_set(1, 2).all_support(1)
    assert not VoterSet((voter(1), old)).all_support(1)
