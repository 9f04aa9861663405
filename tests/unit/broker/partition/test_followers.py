"""What a leader does for its followers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.broker.replication.isr_state import ProposalFate
from crabka.config.topic import TopicConfig
from crabka.errors import OperationError
from crabka.log.partition.healing import LogHealing
from crabka.protocol.error_codes import ErrorCode
from tests.support.storage.replicas import LedPartition, replicated_image


def code_of(caught: pytest.ExceptionInfo[OperationError]) -> ErrorCode:
    return caught.value.error_code


def test_a_follower_that_caught_up_is_proposed() -> None:
    led = LedPartition(replicated_image(1, 2))
    led.append(3)
    led.fetch(2, 3)
    led.fetch(3, 2)
    assert led.world.proposals == []
    led.fetch(3, 3)
    assert [proposal.isr for proposal in led.world.proposals] == [(1, 2, 3)]
    # One proposal at a time.
    led.fetch(3, 3)
    assert len(led.world.proposals) == 1


def test_a_follower_that_is_about_to_join_is_waited_for() -> None:
    led = LedPartition(replicated_image(1, 2))
    led.fetch(3, 0)
    led.append(3)
    led.fetch(2, 3)
    assert led.high_watermark == 0
    led.fetch(3, 3)
    assert led.high_watermark == 3


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_older_incarnation_is_refused(epoch: int) -> None:
    led = LedPartition()
    led.append(3)
    led.world.brokers[3] = replace(led.world.brokers[3], epoch=9)
    with pytest.raises(OperationError) as caught:
        led.fetch(3, 3, broker_epoch=epoch)
    assert code_of(caught) is ErrorCode.not_leader_or_follower
    led.fetch(3, 3, broker_epoch=9)
    led.fetch(3, 3, broker_epoch=-1)


def test_a_follower_that_cannot_use_what_it_gets_makes_the_leader_suspect_its_own_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led = LedPartition()
    led.append(3)
    reported: list[tuple[int, str]] = []
    monkeypatch.setattr(LogHealing, "report_damage_at", lambda _log, offset, reason: reported.append((offset, reason)))
    for _ in range(3):
        led.fetch(2, 1)
    assert reported == []
    led.fetch(2, 1)
    assert reported == [(1, "broker 2 fetches offset 1 repeatedly without progress")]
    # Once for a while, and not for one that waits at the end of the log.
    for _ in range(10):
        led.fetch(2, 1)
        led.fetch(3, 3)
    assert len(reported) == 1
    # Who gets on, by however little, is not suspicious.
    for offset in (2, 2, 3, 1, 2, 2):
        led.fetch(2, offset)
    assert len(reported) == 1


def caught_up() -> LedPartition:
    """Return a partition whose followers have everything."""
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    led.fetch(3, 3)
    return led


def still_caught_up(led: LedPartition, offset: int = 3, log_start: int = 0, broker_epoch: int = 2) -> bool:
    return led.partition.followers.is_still_caught_up(2, FollowerFetch(offset, log_start, broker_epoch))


def test_a_follower_that_stays_caught_up_stays_in_sync() -> None:
    led = caught_up()
    led.world.now_ms = 900
    assert still_caught_up(led)
    led.append(1)
    led.world.now_ms = 1500
    led.partition.followers.shrink_isr()
    assert [proposal.isr for proposal in led.world.proposals] == [(1, 2)]


def test_whatever_is_new_goes_the_long_way() -> None:
    led = caught_up()
    assert not still_caught_up(led, 2)
    assert not still_caught_up(led, log_start=1)
    assert not still_caught_up(led, broker_epoch=3)
    assert not led.partition.followers.is_still_caught_up(9, FollowerFetch(3, 0, 9))
    led.append(1)
    assert not still_caught_up(led)
    assert not still_caught_up(led, 4)


def test_a_follower_that_was_replaced_or_left_the_isr_goes_the_long_way() -> None:
    led = caught_up()
    registered = led.world.brokers.pop(2)
    assert not still_caught_up(led)
    led.world.brokers[2] = replace(registered, epoch=9)
    assert not still_caught_up(led)
    led.world.brokers[2] = registered
    assert still_caught_up(led)
    led.become(replicated_image(1, 3, partition_epoch=11))
    assert not still_caught_up(led)
    led.become(replicated_image(leader=3, leader_epoch=6, partition_epoch=12))
    assert not still_caught_up(led)


def test_only_a_replica_makes_progress() -> None:
    led = LedPartition()
    with pytest.raises(OperationError) as caught:
        led.fetch(9, 0)
    assert code_of(caught) is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("epoch", "code"), [(5, ErrorCode.unknown_leader_epoch), (-1, ErrorCode.not_leader_or_follower)]
)
def test_a_stranger_is_reported_by_what_it_knows(epoch: int, code: ErrorCode) -> None:
    led = LedPartition()
    led.partition.followers.require(2, epoch)
    with pytest.raises(OperationError) as caught:
        led.partition.followers.require(9, epoch)
    assert code_of(caught) is code
    led.become(replicated_image(1, replicas=(1,), partition_epoch=11))
    with pytest.raises(OperationError):
        led.partition.followers.require(2, epoch)


def test_who_lags_for_too_long_is_proposed_to_leave() -> None:
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    led.world.now_ms = 1000
    led.partition.followers.shrink_isr()
    assert led.world.proposals == []
    led.world.now_ms = 1001
    led.partition.followers.shrink_isr()
    assert [proposal.isr for proposal in led.world.proposals] == [(1, 2)]
    # Until that is decided it may still be in the ISR.
    assert led.high_watermark == 0


def test_who_left_and_lags_holds_nothing_back_when_its_time_is_over() -> None:
    led = LedPartition(replicated_image(1, 2))
    led.fetch(3, 0)
    led.partition.followers.isr_answered(led.world.proposals[0], ErrorCode.ineligible_replica)
    led.append(3)
    led.fetch(2, 3)
    assert led.high_watermark == 0
    led.world.now_ms = 1001
    led.partition.followers.shrink_isr()
    assert led.high_watermark == 3


def test_a_lone_partition_has_no_isr_to_shrink() -> None:
    led = LedPartition(replicated_image(1, replicas=(1,)))
    led.partition.followers.shrink_isr()
    assert led.world.proposals == []


def shrunk(led: LedPartition) -> Any:
    led.append(3)
    led.fetch(2, 3)
    led.world.now_ms = 1001
    led.fetch(2, 3)
    led.partition.followers.shrink_isr()
    return led.world.proposals[-1]


def test_a_committed_isr_counts_before_the_metadata_is_here() -> None:
    led = LedPartition()
    proposal = shrunk(led)
    outcome = led.partition.followers.isr_answered(proposal, ErrorCode.none, replicated_image(1, 2, partition_epoch=11))
    assert outcome is ProposalFate.COMMITTED
    assert (led.high_watermark, led.partition.in_sync_count) == (3, 2)


def test_a_refused_isr_is_as_before() -> None:
    led = LedPartition()
    proposal = shrunk(led)
    assert led.partition.followers.isr_answered(proposal, ErrorCode.ineligible_replica) is ProposalFate.REVERTED
    assert (led.high_watermark, led.partition.in_sync_count) == (0, 3)
    led.partition.followers.shrink_isr()
    assert len(led.world.proposals) == 2


def test_an_answer_from_another_time_is_outdated() -> None:
    led = LedPartition()
    proposal = shrunk(led)
    led.become(replicated_image(leader_epoch=6, partition_epoch=11))
    answer = replicated_image(1, 2, partition_epoch=11)
    assert led.partition.followers.isr_answered(proposal, ErrorCode.none, answer) is ProposalFate.OUTDATED
    led.become(replicated_image(leader=2, leader_epoch=7, partition_epoch=12))
    assert led.partition.followers.isr_answered(proposal, ErrorCode.none, answer) is ProposalFate.OUTDATED


def test_the_low_watermark_is_the_lowest_of_the_living() -> None:
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    led.fetch(3, 3)
    led.partition.log.retention.delete_records_before(2)
    assert led.partition.followers.low_watermark() == 0
    led.fetch(2, 3, log_start=2)
    assert led.partition.followers.low_watermark() == 0
    led.world.brokers[3] = replace(led.world.brokers[3], fenced=True)
    assert led.partition.followers.low_watermark() == 2
    led.become(replicated_image(1, replicas=(1,), partition_epoch=11))
    assert led.partition.followers.low_watermark() == 2


RACKS = {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize(
    ("rack", "offset", "expected"), [("b", 3, 2), ("a", 3, None), ("x", 3, None), ("", 3, None), ("c", 3, None)]
)
def test_the_replica_of_the_rack_is_preferred(rack: str, offset: int, expected: int | None) -> None:
    led = LedPartition()
    for broker_id, at in RACKS.items():
        led.world.brokers[broker_id] = replace(led.world.brokers[broker_id], rack=at)
    led.append(3)
    led.fetch(2, 3)
    led.fetch(3, 1)
    assert led.partition.followers.closest(rack, offset) == expected


def test_a_lone_partition_prefers_no_replica() -> None:
    led = LedPartition(replicated_image(1, replicas=(1,)))
    assert led.partition.followers.closest("b", 0) is None
    assert led.partition.followers.may_send_to(2)


def throttled(*replicas: str, isr: tuple[int, ...] = (1,)) -> LedPartition:
    led = LedPartition(replicated_image(*isr))
    led.partition.log.update_config(TopicConfig(leader_replication_throttled_replicas=replicas))
    led.world.host.throttle.bytes_per_second = 10
    led.world.host.throttle.record(1000, 0)
    return led


@pytest.mark.parametrize(
    ("replicas", "isr", "may"),
    [
        (("0:1",), (1,), False),
        (("*",), (1,), False),
        (("1:1",), (1,), True),
        ((), (1,), True),
        (("*",), (1, 2), True),
    ],
)
def test_throttled_replicas_that_are_not_in_sync_wait(
    replicas: tuple[str, ...], isr: tuple[int, ...], may: bool
) -> None:
    led = throttled(*replicas, isr=isr)
    assert led.partition.followers.may_send_to(2) is may


def test_below_the_rate_there_is_no_wait() -> None:
    led = throttled("*")
    led.world.host.throttle.bytes_per_second = 1_000_000
    assert led.partition.followers.may_send_to(2)
    led.world.host.throttle.bytes_per_second = None
    assert led.partition.followers.may_send_to(2)
