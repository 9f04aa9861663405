"""Findings about the remote tier."""

from __future__ import annotations

from crabka.cli.doctor.checks.tier import TieredPartition, TierFacts, find_tier
from crabka.ids import TopicPartition
from crabka.remote.scrub import TierFault, TierFaultKind
from tests.support.doctor.findings import line, only, texts

SOUND = TieredPartition(TopicPartition("t", 0), 1_000, 0, 0)
MIB = 1 << 20


def test_a_tier_without_faults_is_fine() -> None:
    assert texts(find_tier(TierFacts([SOUND], [], failures={}))) == [("ok", "1 partition tiered, no object is missing")]


def test_what_was_not_read_is_named() -> None:
    outcome = find_tier(TierFacts([SOUND], None, "pass --tier URL", None))
    assert texts(outcome) == [("ok", "1 partition tiered")]
    assert outcome.unknown == [
        "objects in the storage: pass --tier URL",
        "failed copies: no broker serves metrics (crabka.http.listener)",
    ]


def test_a_log_that_ends_before_its_tier_is_a_warning() -> None:
    found = only(find_tier(TierFacts([SOUND._replace(beyond_end=2)], [], failures={})))
    assert found.reason == (
        "The log of t-0 ends before its tier, which has 2 segments more: the leader lost records that the tier has."
    )
    assert (found.severity.value, line(found)) == ("warning", "crabka tier forget t:0")


def test_segments_that_wait_are_a_warning() -> None:
    late = SOUND._replace(lag_segments=4, lag_bytes=8 * MIB)
    later = SOUND._replace(partition=TopicPartition("u", 1), lag_segments=9, lag_bytes=90 * MIB)
    found = only(find_tier(TierFacts([SOUND, late, later], [], failures={})))
    assert found.reason == ("2 partitions wait to be copied, 98.0 MiB in all; the most is u-1 with about 9 segments.")
    assert (found.severity.value, line(found)) == ("warning", "crabka tier status u")
    unknown = SOUND._replace(lag_segments=None, lag_bytes=None, beyond_end=None)
    assert only(find_tier(TierFacts([unknown], [], failures={}))).severity.value == "ok"


def test_damage_is_an_error_and_leftovers_are_a_hint() -> None:
    faults = [
        TierFault(kind=TierFaultKind.MISSING_OBJECT, detail="it is not there", object_name="t/1.log"),
        TierFault(kind=TierFaultKind.MISSING_OBJECT, detail="it is not there", object_name="t/2.log"),
        TierFault(kind=TierFaultKind.ORPHAN_OBJECT, detail="no segment has it", object_name="t/3.log"),
        TierFault(kind=TierFaultKind.FOREIGN_OBJECT, detail="a note", object_name="README"),
    ]
    damage, leftover = find_tier(TierFacts([SOUND], faults, failures={}, tier_url="file:///tier")).findings
    assert damage.reason == "The tier has damage: missing-object at t/1.log: it is not there (and 1 more)."
    assert leftover.reason == "The tier has leftovers: orphan-object at t/3.log: no segment has it."
    assert (damage.severity.value, leftover.severity.value) == ("error", "hint")
    assert line(damage) == "crabka tier verify --tier file:///tier"
    assert damage.places == ("t/1.log", "t/2.log")


def test_failed_requests_are_a_warning() -> None:
    found = only(find_tier(TierFacts([SOUND], [], failures={"failed copies": 1_200, "failed reads": 0})))
    assert found.reason == "Requests to the tier failed since the brokers started: 1,200 failed copies."
    assert (found.severity.value, line(found)) == ("warning", "crabka tier status")
