"""Faults say what, where, how bad and what to do."""

from __future__ import annotations

import pytest

from crabka.remote.scrub import Severity, TierFault, TierFaultKind
from tests.support.tiers.planted import ORDERS, two_segments


@pytest.mark.parametrize("kind", TierFaultKind)
def test_every_kind_has_advice_and_a_severity(kind: TierFaultKind) -> None:
    fault = TierFault(kind=kind, detail="is odd")
    assert fault.advice
    assert fault.severity in Severity


def test_lost_records_are_worse_than_lost_space() -> None:
    by_kind = {kind: TierFault(kind=kind, detail="").severity for kind in TierFaultKind}
    assert by_kind[TierFaultKind.MISSING_OBJECT] is Severity.DAMAGE
    assert by_kind[TierFaultKind.ORPHAN_OBJECT] is Severity.LEAK
    assert by_kind[TierFaultKind.LATE_EVENT] is Severity.NOTE


def test_the_place_is_the_smallest_thing_that_is_known() -> None:
    segment = two_segments().segments[0]
    fault = TierFault(kind=TierFaultKind.GAP, detail="is odd")
    assert str(fault) == "gap: tier: is odd"
    assert TierFault(kind=TierFaultKind.GAP, detail="x", partition=ORDERS).place == str(ORDERS)
    placed = TierFault(kind=TierFaultKind.GAP, detail="x", partition=ORDERS, segment_id=segment.segment_id)
    assert placed.place == str(segment.segment_id)
    named = TierFault(kind=TierFaultKind.GAP, detail="x", segment_id=segment.segment_id, object_name="a/b.log")
    assert named.place == "a/b.log"
