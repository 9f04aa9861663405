"""One fault: its requests, its hits, its end."""

from __future__ import annotations

import pytest

from crabka.embedded.edge.faults import Faults


def test_a_fault_names_what_it_is_for() -> None:
    faults = Faults()
    fault = faults.fail_next("produce", "not_leader_or_follower", topic="orders", client_id="c")
    assert str(fault) == "fault of Produce topic=orders client_id=c: NOT_LEADER_OR_FOLLOWER"
    assert [str(each.effect) for each in (faults.delay("Fetch", 0.5), faults.throttle("Fetch", 20))] == [
        "answer delayed by 0.5 s",
        "throttled for 20 ms",
    ]
    assert str(faults.drop_connection(before="Fetch").effect) == "connection dropped (before)"


def test_waiting_for_a_hit_ends_with_what_did_not_happen() -> None:
    fault = Faults().fail_next("Produce", "REQUEST_TIMED_OUT")
    with pytest.raises(TimeoutError, match=r"fault of Produce: REQUEST_TIMED_OUT was hit 0 times, not 1, within 0 s"):
        fault.wait_hit(timeout=0)


def test_a_hit_is_counted_when_it_has_happened() -> None:
    faults = Faults()
    fault = faults.fail_next("Produce", "REQUEST_TIMED_OUT")
    assert faults.take(list(faults), lambda _: True) == [fault]
    assert (fault.hits, fault.is_spent) == (0, True)
    faults.note_hit(fault)
    fault.wait_hit()
    assert fault.hits == 1


def test_a_fault_ends_with_its_block_and_may_be_removed_again() -> None:
    faults = Faults()
    with faults.throttle("Produce", 5) as fault:
        assert len(faults) == 1
    fault.remove()
    assert faults.is_empty
