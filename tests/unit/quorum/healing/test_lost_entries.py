from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voters import ReplicaKey, VoterSet
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.quorum.healing.lost_entries import LossCheck, known_voters, lost_end, whole_end
from crabka.quorum.loading import LoadedMetadata
from crabka.quorum.log.survey import LogSurvey
from crabka.quorum.log.voters import VoterNode
from crabka.quorum.snapshots.files import SnapshotHead, SnapshotId
from crabka.quorum.snapshots.set_aside import DamagedSnapshot
from tests.support.quorum.node import DIRECTORY_ID, VOTER

KEY = ReplicaKey(1, DIRECTORY_ID)
SURVEY = LogSurvey(end_offset=5, epochs=LeaderEpochCache([(2, 0)]))
OTHER = replace(VOTER, voter_id=2, directory_id=UUID(int=7))


def loaded(*voters: object) -> LoadedMetadata:
    return LoadedMetadata(kraft_version=1, voters=tuple(voters))  # type: ignore[arg-type]


def test_the_metadata_ends_where_log_or_snapshot_ends() -> None:
    assert whole_end(loaded(), SURVEY) == (5, 2)
    assert whole_end(LoadedMetadata(snapshot=SnapshotId(9, 1)), SURVEY) == (9, 1)


@pytest.mark.parametrize(
    ("noted", "lost"),
    [(None, None), ((5, 2), None), ((4, 2), None), ((9, 1), None), ((6, 2), (6, 2)), ((1, 3), (1, 3))],
)
def test_what_was_durable_and_is_not_there_is_lost(noted: tuple[int, int] | None, lost: tuple[int, int] | None) -> None:
    assert lost_end(loaded(), SURVEY, None if noted is None else OffsetAndEpoch(*noted)) == lost


def test_a_lone_voter_refuses_and_names_the_loss_and_the_way_out() -> None:
    check = LossCheck("/m", KEY, VoterSet())
    check(loaded(VOTER), SURVEY, OffsetAndEpoch(5, 2))
    with pytest.raises(CorruptDataError, match=r"offsets 5 to 8 .*only known voter.*repair --accept-loss --execute"):
        check(loaded(VOTER), SURVEY, OffsetAndEpoch(9, 2))


def test_a_voter_among_others_says_that_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        LossCheck("/m", KEY, VoterSet())(loaded(VOTER, OTHER), SURVEY, OffsetAndEpoch(9, 2))
    assert "does not take part in elections" in caplog.text


def test_an_observer_just_fetches_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        LossCheck("/m", KEY, VoterSet())(loaded(OTHER), SURVEY, OffsetAndEpoch(9, 2))
    assert not caplog.records


def damaged(*voters: VoterNode, offset: int = 9) -> DamagedSnapshot:
    head = SnapshotHead(1, 1, voters) if voters else None
    return DamagedSnapshot(SnapshotId(offset, 2), "/m/9.checkpoint", "wrong checksum", head)


NOTHING = LogSurvey()


def test_a_damaged_snapshot_shows_what_was_durable_where_no_note_does() -> None:
    found = replace(loaded(VOTER), damaged=(damaged(),))
    assert lost_end(found, SURVEY, None) == (9, 2)
    assert lost_end(found, SURVEY, OffsetAndEpoch(5, 2)) is None
    assert lost_end(found, replace(SURVEY, end_offset=9), None) is None


@pytest.mark.parametrize(("knows_others", "is_refused"), [(False, True), (True, False)])
def test_a_node_without_any_voters_starts_only_if_its_config_names_others(knows_others: bool, is_refused: bool) -> None:
    check = LossCheck("/m", KEY, VoterSet(), knows_others=knows_others)
    found = LoadedMetadata(damaged=(damaged(),))
    if is_refused:
        with pytest.raises(CorruptDataError, match=r"offsets 0 to 8 .*9.checkpoint: wrong checksum.*--accept-loss"):
            check(found, NOTHING, None)
    else:
        check(found, NOTHING, None)


def test_the_head_of_a_damaged_snapshot_names_voters_that_are_newer_than_the_rest() -> None:
    found = replace(loaded(VOTER), damaged=(damaged(VOTER, OTHER),))
    assert known_voters(found, SURVEY, VoterSet()).ids == {1, 2}
    LossCheck("/m", KEY, VoterSet())(found, SURVEY, OffsetAndEpoch(9, 2))
    # The log goes further than the damaged snapshot: it has the newer ones.
    assert known_voters(found, replace(SURVEY, end_offset=12), VoterSet()).ids == {1}
    alone = LoadedMetadata(damaged=(damaged(VOTER),))
    with pytest.raises(CorruptDataError, match="only known voter"):
        LossCheck("/m", KEY, VoterSet(), knows_others=True)(alone, NOTHING, OffsetAndEpoch(9, 2))


def test_a_new_lone_voter_whose_voters_are_damaged_is_formatted_anew() -> None:
    first = damaged(VOTER)._replace(snapshot_id=SnapshotId(0, 0))
    with pytest.raises(CorruptDataError, match="nothing is lost: format the directory anew"):
        LossCheck("/m", KEY, VoterSet())(LoadedMetadata(damaged=(first,)), NOTHING, None)
    LossCheck("/m", KEY, VoterSet((VOTER,)))(LoadedMetadata(damaged=(first,)), NOTHING, None)
    several = first._replace(head=SnapshotHead(1, 1, (VOTER, OTHER)))
    LossCheck("/m", KEY, VoterSet())(LoadedMetadata(damaged=(several,)), NOTHING, None)
