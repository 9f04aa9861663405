"""Bugs that the simulation must find: each takes one rule away from the code of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from crabka.broker.controller_link.directory_reports import DirectoryReports
from crabka.broker.controller_link.replica_losses import ReplicaLosses
from crabka.broker.partition.partition import Partition
from crabka.broker.partition.purgatory import ReachedOffsets
from crabka.broker.replication.follower_state import CutFollowerLog, FetchAnswered, FetchPhase, FollowerFetching
from crabka.broker.replication.isr_state import IsrState
from crabka.broker.replication.leader_state import LeaderReplication
from crabka.broker.transactions.messages import Resume
from crabka.broker.transactions.transaction import Transaction
from crabka.controller.decisions import alter_partition
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.log.metadata_log import LogFlush
from tests.support.cluster_sim import scripts
from tests.support.cluster_sim.clients import ALL_THERE
from tests.support.cluster_sim.copying import EXACTLY_ONCE
from tests.support.cluster_sim.watch import (
    ACKNOWLEDGED,
    ALIVE,
    BELOW_MIN_ISR,
    EQUAL,
    IN_SYNC,
    METADATA,
    ONE_CONTROLLER,
    ONE_LEADER,
    PLACES,
    RISING_WATERMARK,
    UNFENCED,
    WAITING,
)
from tests.support.cluster_sim.world import LIVENESS, Script

Plant = Callable[[pytest.MonkeyPatch], None]


def admit_followers_that_are_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def propose(leading: LeaderReplication, follower_id: int, _log: Any, brokers: Any) -> Any:
        state = leading.isr_state
        if state.pending is not None or follower_id not in leading.followers or follower_id in state.isr:
            return None
        return state.propose((*state.isr, follower_id)) if leading._is_eligible(follower_id, brokers) else None

    monkeypatch.setattr(LeaderReplication, "propose_expansion", propose)


def admit_fenced_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderReplication, "_is_eligible", lambda *_: True)
    monkeypatch.setattr(alter_partition, "_is_eligible", lambda *_: True)


def advance_below_min_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderReplication, "is_under_min_isr", lambda *_: False)


def forget_who_is_about_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    high_watermark = LeaderReplication.high_watermark

    def careless(leading: LeaderReplication, log: Any, brokers: Any, limits: Any, now_ms: int) -> int:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(LeaderReplication, "_is_eligible", lambda *_: False)
            return high_watermark(leading, log, brokers, limits, now_ms)

    monkeypatch.setattr(IsrState, "maximal_isr", property(lambda state: frozenset(state.isr)))
    monkeypatch.setattr(LeaderReplication, "high_watermark", careless)


def cut_followers_to_their_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    step = FollowerFetching.step

    def cut_first(fetching: Any, event: Any, log: Any, now_ms: int) -> Any:
        is_first = isinstance(event, FetchAnswered) and not getattr(fetching, "was_cut", False)
        if is_first and fetching.phase is FetchPhase.FETCHING:
            fetching.was_cut = True
            if log.high_watermark < log.log_end_offset:
                fetching.phase = FetchPhase.CHANGING
                return [CutFollowerLog(log.high_watermark)]
        return step(fetching, event, log, now_ms)

    monkeypatch.setattr(FollowerFetching, "step", cut_first)


def acknowledge_before_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "acknowledgement", lambda *_: ErrorCode.none)


def acknowledge_by_the_offset_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice the end of an epoch only while waiting; before that, any record at the offset counts."""

    progressed = ReachedOffsets.progressed

    def careless(condition: Any, partition: Any, readable_bytes: int) -> bool:
        if readable_bytes >= 0:
            return progressed(condition, partition, readable_bytes)
        if condition._required.pop(partition, None) is not None:
            condition._failures[partition] = ErrorCode.not_leader_or_follower
        return not condition._required

    monkeypatch.setattr(ReachedOffsets, "progressed", careless)
    monkeypatch.setattr(Partition, "is_led_for", lambda *_: True)


def wait_for_what_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register without a check of what happened before."""
    monkeypatch.setattr(ReachedOffsets, "is_met", lambda _: False)


def take_reports_for_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take reports of log dirs for done without asking the controller."""

    async def forget(reports: DirectoryReports) -> bool:
        reports._unreported.clear()
        return True

    monkeypatch.setattr(DirectoryReports, "_send_once", forget)


def skip_fsync_of_the_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFlush, "run", lambda flush: flush.end_offset)


def forget_markers_of_moved_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Transaction.step
    monkeypatch.setattr(
        Transaction,
        "step",
        lambda core, event, now_ms: [] if isinstance(event, Resume) else step(core, event, now_ms),
    )


def lead_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that had to cut durable records is elected as if it had them."""

    async def report_nothing(_losses: ReplicaLosses) -> None:
        """Let the controller trust every replica."""

    monkeypatch.setattr(ReplicaLosses, "report", report_nothing)


class PlantedBug(NamedTuple):
    """A bug, where it shows, and by what it is known."""

    plant: Plant
    script: Script
    invariants: frozenset[str]
    # Whether it needs transactions to show.
    copies: bool = False
    # Whether it needs changes of the metadata to show.
    operates: bool = False
    # The seed to begin with: it found the bug when it was last looked for.
    first_seed: int = 1


LOST = {ALL_THERE, ACKNOWLEDGED, IN_SYNC, EQUAL}
BUGS = [
    PlantedBug(admit_followers_that_are_behind, scripts.return_late, frozenset({IN_SYNC, ACKNOWLEDGED})),
    PlantedBug(lead_after_a_loss, scripts.rot_while_stopped, frozenset(LOST)),
    PlantedBug(admit_fenced_followers, scripts.return_fenced, frozenset({UNFENCED})),
    PlantedBug(advance_below_min_isr, scripts.leave_the_leader_alone, frozenset({BELOW_MIN_ISR})),
    PlantedBug(forget_who_is_about_to_join, scripts.return_to_slow_controllers, frozenset({IN_SYNC, ACKNOWLEDGED})),
    PlantedBug(
        cut_followers_to_their_high_watermark,
        scripts.kill_leaders_far_away,
        frozenset({IN_SYNC, RISING_WATERMARK, ACKNOWLEDGED}),
    ),
    PlantedBug(acknowledge_before_replication, scripts.kill_leaders, frozenset(LOST)),
    PlantedBug(
        acknowledge_by_the_offset_alone, scripts.move_leaders_of_slow_disks, frozenset({ALL_THERE}), first_seed=3
    ),
    PlantedBug(wait_for_what_has_happened, scripts.move_leaders_of_slow_disks, frozenset({WAITING})),
    PlantedBug(take_reports_for_answered, scripts.kill_leaders, frozenset({PLACES})),
    PlantedBug(
        skip_fsync_of_the_quorum,
        scripts.cut_power_of_controllers,
        frozenset({METADATA, ONE_LEADER, ONE_CONTROLLER, ALIVE, LIVENESS}),
        operates=True,
        first_seed=5,
    ),
    PlantedBug(
        forget_markers_of_moved_transactions,
        scripts.move_coordinators,
        frozenset({LIVENESS, EXACTLY_ONCE}),
        copies=True,
    ),
]
