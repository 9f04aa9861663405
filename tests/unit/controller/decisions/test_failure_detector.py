"""When a dead broker may be fenced before its session is over."""

from __future__ import annotations

import pytest

from crabka.controller.decisions.failure_detector import (
    MAX_DIALS,
    BrokerGone,
    ConnectionBroke,
    ControllerActivated,
    ControllerDeactivated,
    DetectorAction,
    DetectorEvent,
    DetectorTick,
    DialBroker,
    DialFinished,
    DialOutcome,
    FailureDetector,
    FenceEarly,
    HeartbeatArrived,
    QuorumLiveness,
)
from crabka.controller.decisions.sessions import BrokerIncarnation

ONE, TWO = BrokerIncarnation(1, 10), BrokerIncarnation(2, 20)
REFUSED, CONNECTED = DialOutcome.REFUSED, DialOutcome.CONNECTED


def detector(*brokers: BrokerIncarnation) -> FailureDetector:
    """A controller that leads and has heartbeats of these brokers, each over the connection of its id."""
    core = FailureDetector()
    core.step(ControllerActivated(brokers), 0)
    core.step(QuorumLiveness(is_live=True), 0)
    for broker in brokers:
        core.step(HeartbeatArrived(broker, broker.broker_id), 0)
    return core


def refused_once(core: FailureDetector, now_ms: int = 1000) -> None:
    assert core.step(ConnectionBroke(1), now_ms) == [DialBroker(ONE)]
    assert core.step(DialFinished(ONE, [REFUSED]), now_ms) == []


def finish(core: FailureDetector, now_ms: int, *outcomes: DialOutcome) -> list[DetectorAction]:
    return core.step(DialFinished(ONE, outcomes), now_ms)


def test_two_refusals_100_ms_apart_mean_a_dead_process() -> None:
    core = detector(ONE, TWO)
    refused_once(core)
    assert core.next_wake_ms == 1100
    assert core.step(DetectorTick(), 1099) == []
    assert core.step(DetectorTick(), 1100) == [DialBroker(ONE)]
    assert finish(core, 1101, REFUSED, REFUSED) == [FenceEarly(ONE)]
    assert core.next_wake_ms is None


@pytest.mark.parametrize(
    "outcomes",
    [
        [DialOutcome.TIMED_OUT],
        [DialOutcome.UNREACHABLE],
        [DialOutcome.UNKNOWN_NAME],
        [REFUSED, DialOutcome.TIMED_OUT],
        [],
    ],
)
@pytest.mark.parametrize("after_refusal", [False, True])
def test_whatever_may_be_the_network_leaves_it_to_the_session(outcomes: list[DialOutcome], after_refusal: bool) -> None:
    core = detector(ONE)
    if after_refusal:
        refused_once(core)
        core.step(DetectorTick(), 1100)
    else:
        core.step(ConnectionBroke(1), 1000)
    assert finish(core, 1200, *outcomes) == []
    assert core.next_wake_ms is None


def test_a_process_that_still_accepts_is_dialled_again_and_needs_two_more_refusals() -> None:
    core = detector(ONE)
    core.step(ConnectionBroke(1), 1000)
    assert finish(core, 1000, REFUSED) == []
    core.step(DetectorTick(), 1100)
    assert finish(core, 1100, CONNECTED, REFUSED) == []
    core.step(DetectorTick(), 1200)
    assert finish(core, 1200, REFUSED) == []
    core.step(DetectorTick(), 1300)
    assert finish(core, 1300, REFUSED) == [FenceEarly(ONE)]


def test_a_process_that_goes_on_accepting_is_alive() -> None:
    core = detector(ONE)
    core.step(ConnectionBroke(1), 0)
    for dial in range(MAX_DIALS):
        assert core.next_wake_ms is None
        assert finish(core, dial * 100, CONNECTED) == []
        core.step(DetectorTick(), (dial + 1) * 100)
    assert core.next_wake_ms is None
    assert core.step(DetectorTick(), 9999) == []


def test_a_heartbeat_ends_the_suspicion_and_makes_the_dial_meaningless() -> None:
    core = detector(ONE)
    refused_once(core)
    core.step(DetectorTick(), 1100)
    core.step(HeartbeatArrived(ONE, "new"), 1150)
    assert finish(core, 1200, REFUSED) == []
    assert core.next_wake_ms is None
    assert core.step(ConnectionBroke(1), 1300) == []
    assert core.step(ConnectionBroke("new"), 1400) == [DialBroker(ONE)]
    # What was refused before the heartbeat does not count.
    assert finish(core, 1400, REFUSED) == []


def test_a_late_heartbeat_of_an_old_connection_does_not_hide_the_new_one() -> None:
    core = detector(ONE)
    core.step(HeartbeatArrived(ONE, "new"), 900)
    core.step(HeartbeatArrived(ONE, 1), 910)
    assert core.step(ConnectionBroke(1), 920) == [DialBroker(ONE)]
    assert finish(core, 921, DialOutcome.UNREACHABLE) == []
    assert core.step(ConnectionBroke("new"), 1000) == [DialBroker(ONE)]
    assert finish(core, 1001, REFUSED) == []


def test_a_connection_without_heartbeats_says_nothing() -> None:
    core = detector(ONE)
    assert core.step(ConnectionBroke("admin client"), 1000) == []


def test_an_older_incarnation_does_not_count() -> None:
    core = detector(ONE)
    newer = BrokerIncarnation(1, 50)
    core.step(HeartbeatArrived(newer, "new"), 10)
    core.step(HeartbeatArrived(ONE, "late"), 11)
    assert core.step(ConnectionBroke("late"), 12) == []
    assert core.step(ConnectionBroke("new"), 13) == [DialBroker(newer)]
    assert finish(core, 14, REFUSED) == []
    core.step(DetectorTick(), 200)
    assert finish(core, 300, REFUSED) == []


def test_a_new_controller_dials_brokers_that_are_silent_for_a_second() -> None:
    core = FailureDetector()
    core.step(ControllerActivated([ONE, TWO]), 5000)
    core.step(QuorumLiveness(is_live=True), 5000)
    core.step(HeartbeatArrived(TWO, "two"), 5500)
    assert core.next_wake_ms == 6000
    assert core.step(DetectorTick(), 6000) == [DialBroker(ONE)]
    assert finish(core, 6000, REFUSED) == []
    assert core.step(DetectorTick(), 6100) == [DialBroker(ONE)]
    assert finish(core, 6100, REFUSED) == [FenceEarly(ONE)]


def test_without_a_live_quorum_no_broker_is_fenced() -> None:
    core = detector(ONE)
    refused_once(core)
    core.step(QuorumLiveness(is_live=False), 1050)
    core.step(DetectorTick(), 1100)
    assert finish(core, 1100, REFUSED) == []
    core.step(QuorumLiveness(is_live=True), 1150)
    core.step(DetectorTick(), 1200)
    assert finish(core, 1200, REFUSED) == [FenceEarly(ONE)]


@pytest.mark.parametrize("event", [BrokerGone(ONE), ControllerDeactivated()])
def test_who_is_gone_is_not_dialled(event: DetectorEvent) -> None:
    core = detector(ONE)
    refused_once(core)
    core.step(event, 1050)
    assert core.next_wake_ms is None
    assert core.step(DetectorTick(), 1100) == []
    assert finish(core, 1200, REFUSED) == []


def test_another_incarnation_that_is_gone_changes_nothing() -> None:
    core = detector(ONE)
    core.step(BrokerGone(BrokerIncarnation(1, 9)), 0)
    assert core.step(ConnectionBroke(1), 1) == [DialBroker(ONE)]


def test_refusals_in_quick_succession_are_one() -> None:
    core = detector(ONE)
    core.step(ConnectionBroke(1), 1000)
    assert finish(core, 1000, REFUSED) == []
    # The answer of a dial comes only once.
    assert finish(core, 1099, REFUSED) == []


def test_it_can_be_turned_off() -> None:
    core = FailureDetector(enabled=False)
    core.step(ControllerActivated([ONE]), 0)
    core.step(QuorumLiveness(is_live=True), 0)
    core.step(HeartbeatArrived(ONE, 1), 0)
    assert core.step(ConnectionBroke(1), 1) == []
    assert core.next_wake_ms is None
