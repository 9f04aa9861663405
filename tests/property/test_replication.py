"""Replication under random schedules: what was committed is never lost, and planted bugs are found.

The decisions are those of the controller and the broker; logs, network and crashes are a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crabka.broker.replication import follower_state
from crabka.broker.replication.isr_state import IsrState
from crabka.broker.replication.leader_state import LeaderReplication
from crabka.controller.decisions import alter_partition, broker_changes, partition_change, registration
from tests.support.replication import node
from tests.support.replication.invariants import BrokenReplicationError
from tests.support.replication.world import Conditions, ReplicationWorld
from tests.support.scale import scaled
from tests.support.seeds import base_seed

STEPS = 400
CONDITIONS = [
    Conditions(elr=elr, min_isr=min_isr, loses_power=loses_power)
    for elr in (True, False)
    for min_isr in (1, 2)
    for loses_power in ((True, False) if elr else (False,))
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_committed_records_are_never_lost(conditions: Conditions) -> None:
    committed = 0
    for seed in range(base_seed(), base_seed() + scaled(30, 3000)):
        print(f"seed {seed}")
        committed += ReplicationWorld(seed, conditions).run(STEPS)
    assert committed > 300


def watermark_of_the_present_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IsrState, "maximal_isr", property(lambda state: frozenset(state.isr)))


def watermark_below_min_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderReplication, "is_under_min_isr", lambda *_: False)


def truncation_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_watermark(*_: Any, log_end_offset: int, high_watermark: int) -> int:
        return min(high_watermark, log_end_offset)

    monkeypatch.setattr(follower_state, "truncation_offset", by_watermark)


def leader_that_does_not_see_logs_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "diverging_epoch", lambda *_, **__: None)


def isr_with_a_follower_that_lacks_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def propose(state: LeaderReplication, follower_id: int, *_: Any) -> Any:
        isr = state.isr_state
        if isr.pending is not None or follower_id in isr.isr:
            return None
        return isr.propose((*isr.isr, follower_id))

    monkeypatch.setattr(LeaderReplication, "propose_expansion", propose)


def isr_with_fenced_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderReplication, "_is_eligible", lambda *_: True)
    monkeypatch.setattr(alter_partition, "_is_eligible", lambda *_: True)


def election_of_anybody_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        partition_change._Draft, "_is_valid_leader", lambda draft, replica: draft._rules.can_lead(replica)
    )


def crashes_taken_for_clean_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = broker_changes.cleanup_records
    monkeypatch.setattr(
        registration, "cleanup_records", lambda view, broker_id, **_: clean(view, broker_id, clean=True)
    )


def reassignment_complete_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(replicas: Any, isr: Any, *, adding: Any, removing: Any) -> Any:
        if not adding and not removing:
            return None
        final = tuple(each for each in replicas if each not in removing)
        return final, tuple(each for each in final if each in isr) or final[:1]

    monkeypatch.setattr(partition_change, "completed_reassignment", completed)


BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = [
    (watermark_of_the_present_isr, {"committed records stay"}),
    (watermark_below_min_isr, {"committed records stay"}),
    (truncation_to_the_high_watermark, {"committed records stay"}),
    (leader_that_does_not_see_logs_part, {"committed records stay", "leaders agree on committed records"}),
    (isr_with_a_follower_that_lacks_records, {"committed records stay"}),
    (isr_with_fenced_members, {"only living brokers join the ISR"}),
    (election_of_anybody_alive, {"committed records stay", "leader in ISR", "ISR within replicas"}),
    (crashes_taken_for_clean_stops, {"committed records stay"}),
    (reassignment_complete_at_once, {"committed records stay", "only living brokers join the ISR"}),
]


@pytest.mark.parametrize(("plant", "invariants"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], invariants: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = next(filter(None, map(broken_invariant, range(1, 400))), None)
    assert found is not None, "no schedule showed the bug"
    assert found.invariant in invariants, found


def broken_invariant(seed: int) -> BrokenReplicationError | None:
    try:
        ReplicationWorld(seed, Conditions()).run(STEPS)
    except BrokenReplicationError as error:
        return error
    return None
