"""Uploads that no broker will finish."""

from __future__ import annotations

from crabka.broker.tiering.expire.leftovers import DeletionWatch, LeftoverWatch
from crabka.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tests.support.tiers.segment_metadata import DELETING, FINISHED, STARTED, remote_segment

BEGUN = remote_segment(0, 9, state=STARTED, broker_id=2)


def look(
    watch: LeftoverWatch,
    now_ms: int,
    segments: list[RemoteLogSegmentMetadata] | None = None,
    in_flight: set[RemoteLogSegmentId] | None = None,
) -> list[RemoteLogSegmentMetadata]:
    listed = [BEGUN] if segments is None else segments
    return watch.abandoned(listed, in_flight=in_flight or set(), now_ms=now_ms, grace_ms=100)


def test_an_upload_is_abandoned_only_after_the_grace_period() -> None:
    watch = LeftoverWatch()
    assert look(watch, 1000) == []
    assert look(watch, 1099) == []
    assert look(watch, 1100) == [BEGUN]


def test_the_grace_period_begins_when_this_leader_first_sees_it() -> None:
    # Its own timestamp, of another broker's clock, is of no account.
    assert look(LeftoverWatch(), 10**12) == []


def test_own_uploads_are_no_leftovers() -> None:
    watch = LeftoverWatch()
    assert look(watch, 0, in_flight={BEGUN.segment_id}) == []
    # From the moment on that this broker gives it up, it is one.
    assert look(watch, 1000) == []
    assert look(watch, 1100) == [BEGUN]


def test_an_upload_of_an_earlier_run_of_this_broker_is_a_leftover() -> None:
    watch = LeftoverWatch()
    own = remote_segment(0, 9, state=STARTED, broker_id=1)
    assert look(watch, 0, [own]) == []
    assert look(watch, 100, [own]) == [own]


def test_only_uploads_are_waited_for() -> None:
    watch = LeftoverWatch()
    segments = [remote_segment(0, 9, state=FINISHED), remote_segment(10, 19, state=DELETING)]
    assert look(watch, 0, segments) == look(watch, 1000, segments) == []


def test_what_is_gone_is_forgotten() -> None:
    watch = LeftoverWatch()
    look(watch, 0)
    look(watch, 50, [])
    assert look(watch, 100) == []


def test_a_deletion_is_finished_only_after_the_grace_period() -> None:
    watch, name = DeletionWatch(), BEGUN.segment_id
    assert not watch.is_waiting(name)
    assert not watch.is_due(name, now_ms=1000, grace_ms=0)
    watch.note_deleted(name, 1000)
    assert watch.is_waiting(name)
    assert not watch.is_due(name, now_ms=1099, grace_ms=100)
    assert watch.is_due(name, now_ms=1100, grace_ms=100)
    watch.keep({name})
    assert watch.is_waiting(name)
    watch.keep(set())
    assert not watch.is_waiting(name)
