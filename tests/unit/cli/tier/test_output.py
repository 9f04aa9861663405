"""How segments and faults of a tier look."""

from __future__ import annotations

import json

import pytest

from crabka.cli.output import column_of
from crabka.cli.tier.output import SEGMENT_COLUMNS, fault_line, print_result, segment_row, summary
from crabka.remote.scrub import TierFault, TierFaultKind
from crabka.remote.scrub.objects import OrphanSegment
from crabka.remote_topic.tier_check import CheckResult
from tests.support.tiers.planted import ORDERS, STORED_MS, segment_text, two_segments

GAP = TierFault(kind=TierFaultKind.GAP, detail="offsets 1..2 are in no segment", partition=ORDERS)
NOTE = TierFault(kind=TierFaultKind.LATE_EVENT, detail="came late", partition=ORDERS)


def test_a_segment_has_all_columns() -> None:
    segment = two_segments().segments[1]
    row = segment_row(segment, STORED_MS + 61_000)
    assert {column_of(each).name for each in SEGMENT_COLUMNS} <= set(row)
    assert (row["epochs"], row["age_ms"], row["id"]) == (["0=30", "2=45"], 61_000, segment_text(segment))


def test_a_fault_is_one_line_with_what_to_do() -> None:
    line = fault_line(GAP).plain
    assert line.startswith(f"damage gap {ORDERS}: offsets 1..2 are in no segment -> ")
    assert line.endswith(GAP.advice)
    assert "\n" not in line


def test_notes_leave_a_tier_clean() -> None:
    result = CheckResult(partition_count=1, segment_count=2, byte_count=3, object_count=4, faults=[NOTE])
    assert summary(result) == "2 segments of 1 partitions, 3 B, 4 objects: clean (1 notes)"
    result.faults.append(GAP)
    result.object_count = None
    assert summary(result) == "2 segments of 1 partitions, 3 B: 1 damage (1 notes)"


def test_what_was_deleted_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    orphan = OrphanSegment(ORDERS, two_segments().segments[0].segment_id.id, 7)
    result = CheckResult(deleted=[orphan], not_deleted="the store says no")
    print_result(result, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"deleted {orphan.name}"
    assert lines[1] == "orphans were not deleted: the store says no"
    print_result(result, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["deleted"], printed["not_deleted"]) == ([orphan.name], "the store says no")


def test_programs_get_faults_with_all_they_know(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(CheckResult(faults=[GAP]), as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["clean"] is False
    assert printed["faults"] == [
        {
            "kind": "gap",
            "severity": "damage",
            "topic": "orders",
            "partition": 0,
            "segment": None,
            "object": None,
            "detail": "offsets 1..2 are in no segment",
            "advice": GAP.advice,
        }
    ]
