from __future__ import annotations

import pytest

from crabka.errors import InvariantError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import VoterSet
from tests.support.quorum.kraft_bench import voter_set


def test_the_last_record_counts_and_a_truncation_takes_it_back() -> None:
    history = VoterHistory(voter_set(1), 1)
    history.add_voters(5, voter_set(1, 2))
    history.add_kraft_version(6, 2)
    assert (history.voters, history.voters_offset) == (voter_set(1, 2), 5)
    assert (history.kraft_version, history.kraft_version_offset) == (2, 6)
    history.truncate(6)
    assert (history.voters, history.kraft_version) == (voter_set(1, 2), 1)
    history.truncate(5)
    assert (history.voters, history.voters_offset) == (voter_set(1), -1)
    history.truncate(0)
    assert history.voters == voter_set(1)


def test_a_snapshot_holds_what_counted_at_its_last_record() -> None:
    history = VoterHistory(voter_set(1), 0)
    history.add_kraft_version(4, 1)
    history.add_voters(5, voter_set(1, 2))
    assert history.voters_at(4) == voter_set(1)
    assert history.voters_at(5) == voter_set(1, 2)
    assert (history.kraft_version_at(3), history.kraft_version_at(4)) == (0, 1)


def test_pruning_keeps_what_a_reader_of_the_log_needs() -> None:
    history = VoterHistory(voter_set(1), 1)
    history.add_voters(5, voter_set(1, 2))
    history.add_voters(9, voter_set(1, 2, 3))
    history.prune(9)
    assert history.voters_at(0) == voter_set(1, 2)
    history.prune(10)
    assert history.voters_at(0) == voter_set(1, 2, 3)


def test_offsets_rise() -> None:
    history = VoterHistory(voter_set(1), 1)
    history.add_voters(5, voter_set(1, 2))
    with pytest.raises(InvariantError, match="lies before"):
        history.add_voters(5, voter_set(1))


def test_a_snapshot_replaces_everything() -> None:
    history = VoterHistory(voter_set(1), 0)
    history.add_voters(5, voter_set(1, 2))
    history.restart(OffsetAndEpoch(20, 3), voter_set(7), 1)
    assert (history.voters, history.voters_offset, history.kraft_version) == (voter_set(7), 19, 1)


def test_a_snapshot_without_voters_leaves_those_of_the_config() -> None:
    history = VoterHistory(voter_set(1), 0)
    history.restart(OffsetAndEpoch(20, 3), VoterSet(), 0)
    assert history.voters == voter_set(1)


def test_the_predecessor_of_an_uncommitted_change_is_known() -> None:
    history = VoterHistory(voter_set(1), 1, OffsetAndEpoch(3, 1))
    assert history.uncommitted_predecessor(0) is None
    history.add_voters(5, voter_set(1, 2))
    assert history.uncommitted_predecessor(5) == voter_set(1)
    assert history.uncommitted_predecessor(6) is None
    assert history.voters_from(5) == [voter_set(1), voter_set(1, 2)]
