"""What the leader of a partition decides."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.broker.replication.leader_state import LeaderLog, LeaderReplication, ReplicationLimits
from crabka.errors import OperationError
from crabka.metadata.cluster import BrokerRegistration
from crabka.metadata.topics import PartitionImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import cluster

BROKERS = cluster(1, 2, 3).cluster.brokers
ONE_MIN, TWO_MIN = ReplicationLimits(1, 1000), ReplicationLimits(2, 1000)


def partition(*isr: int, replicas: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 10) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        leader=1,
        leader_epoch=5,
        partition_epoch=partition_epoch,
        directories=(uuid.UUID(int=100),) * len(replicas),
    )


def leading(*isr: int, end_offset: int = 0, **more: Any) -> LeaderReplication:
    return LeaderReplication(1, 1, partition(*isr, **more), end_offset=end_offset, now_ms=0)


def fetch(
    state: LeaderReplication, follower: int, offset: int, *, end: int, now_ms: int = 0, broker_epoch: int | None = None
) -> None:
    epoch = follower if broker_epoch is None else broker_epoch
    state.fetched(follower, FollowerFetch(offset, 0, epoch), LeaderLog(end, 0), now_ms)


def watermark(
    state: LeaderReplication,
    end: int,
    current: int = 0,
    limits: ReplicationLimits = ONE_MIN,
    *,
    now_ms: int = 0,
    brokers: dict[int, BrokerRegistration] | None = None,
) -> int:
    return state.high_watermark(LeaderLog(end, current), brokers or BROKERS, limits, now_ms)


def test_the_high_watermark_is_what_the_whole_isr_has() -> None:
    state = leading(1, 2, 3)
    assert watermark(state, 10) == 0
    fetch(state, 2, 8, end=10)
    assert watermark(state, 10) == 0
    fetch(state, 3, 5, end=10)
    assert watermark(state, 10) == 5
    fetch(state, 3, 10, end=10)
    assert watermark(state, 10) == 8


def test_the_high_watermark_never_falls() -> None:
    state = leading(1, 2, 3)
    fetch(state, 2, 3, end=10)
    fetch(state, 3, 3, end=10)
    assert watermark(state, 10, current=7) == 7


def test_a_lone_leader_has_everything() -> None:
    assert watermark(leading(1, replicas=(1,)), 10) == 10


def test_below_min_isr_the_high_watermark_stands_still() -> None:
    state = leading(1)
    assert watermark(state, 10, current=4, limits=TWO_MIN) == 4
    assert watermark(state, 10, current=4, limits=ONE_MIN) == 10


def test_min_isr_is_capped_by_the_number_of_replicas() -> None:
    state = leading(1, replicas=(1,))
    assert watermark(state, 10, limits=TWO_MIN) == 10
    state.require_min_isr(TWO_MIN)


def test_a_follower_on_its_way_into_the_isr_is_waited_for() -> None:
    state = leading(1, 2)
    fetch(state, 2, 10, end=10)
    fetch(state, 3, 10, end=10)
    assert state.propose_expansion(3, LeaderLog(10, 10), BROKERS) is not None
    fetch(state, 2, 20, end=20, now_ms=5000)
    assert watermark(state, 20, current=10, now_ms=5000) == 10


def test_a_follower_on_its_way_out_is_still_waited_for() -> None:
    state = leading(1, 2)
    fetch(state, 2, 4, end=10)
    proposal = state.propose_shrinking(LeaderLog(10, 4), ONE_MIN, 5000)
    assert proposal is not None
    assert proposal.isr == (1,)
    assert watermark(state, 10, current=4, now_ms=5000) == 4
    state.isr_state.answered(proposal, ErrorCode.none, partition(1, partition_epoch=11))
    assert watermark(state, 10, current=4, now_ms=5000) == 10


def test_a_follower_about_to_join_is_waited_for_unless_it_may_not_join() -> None:
    state = leading(1, 2)
    fetch(state, 2, 20, end=20)
    fetch(state, 3, 9, end=9)
    assert watermark(state, 20) == 9
    fenced = {**BROKERS, 3: replace(BROKERS[3], fenced=True)}
    assert watermark(state, 20, brokers=fenced) == 20
    assert watermark(state, 20, now_ms=1001) == 20


def test_a_follower_joins_when_it_has_all_that_is_committed() -> None:
    state = leading(1, 2)
    log = LeaderLog(20, 10)
    fetch(state, 3, 9, end=20)
    assert state.propose_expansion(3, log, BROKERS) is None
    fetch(state, 3, 10, end=20)
    proposal = state.propose_expansion(3, log, BROKERS)
    assert proposal is not None
    assert state.broker_epochs(proposal) == [(1, 1), (2, -1), (3, 3)]
    assert state.propose_expansion(3, log, BROKERS) is None


def test_a_follower_joins_only_when_it_has_reached_the_epoch_of_the_leader() -> None:
    state = leading(1, end_offset=15)
    fetch(state, 2, 12, end=20)
    assert state.propose_expansion(2, LeaderLog(20, 10), BROKERS) is None
    fetch(state, 2, 15, end=20)
    assert state.propose_expansion(2, LeaderLog(20, 10), BROKERS) is not None


@pytest.mark.parametrize(
    "changes", [{"fenced": True}, {"in_controlled_shutdown": True}, {"epoch": 99}], ids=["fenced", "stopping", "new"]
)
def test_who_may_not_join(changes: dict[str, Any]) -> None:
    state = leading(1, 2)
    fetch(state, 3, 10, end=10)
    brokers = {**BROKERS, 3: replace(BROKERS[3], **changes)}
    assert state.propose_expansion(3, LeaderLog(10, 10), brokers) is None
    without = {key: broker for key, broker in BROKERS.items() if key != 3}
    assert state.propose_expansion(3, LeaderLog(10, 10), without) is None


def test_a_follower_too_old_to_report_its_epoch_may_join() -> None:
    state = leading(1, 2)
    fetch(state, 3, 10, end=10, broker_epoch=-1)
    assert state.propose_expansion(3, LeaderLog(10, 10), BROKERS) is not None


def test_members_and_strangers_do_not_join() -> None:
    state = leading(1, 2)
    fetch(state, 2, 10, end=10)
    assert state.propose_expansion(2, LeaderLog(10, 10), BROKERS) is None
    assert state.propose_expansion(9, LeaderLog(10, 10), BROKERS) is None


def test_the_isr_shrinks_after_the_lag_time() -> None:
    state = leading(1, 2, 3)
    fetch(state, 2, 10, end=10, now_ms=500)
    fetch(state, 3, 4, end=10, now_ms=500)
    log = LeaderLog(20, 4)
    assert state.propose_shrinking(log, ONE_MIN, 1000) is None
    proposal = state.propose_shrinking(log, ONE_MIN, 1001)
    assert proposal is not None
    assert proposal.isr == (1, 2)
    assert state.propose_shrinking(log, ONE_MIN, 9999) is None


def test_a_quiet_partition_does_not_shrink() -> None:
    state = leading(1, 2)
    fetch(state, 2, 10, end=10)
    assert state.propose_shrinking(LeaderLog(10, 10), ONE_MIN, 99_999) is None


def test_a_new_leader_gives_time_to_its_isr_only() -> None:
    state = leading(1, 2)
    assert state.propose_shrinking(LeaderLog(10, 0), ONE_MIN, 1000) is None
    assert watermark(state, 10) == 0
    proposal = state.propose_shrinking(LeaderLog(10, 0), ONE_MIN, 1001)
    assert proposal is not None
    assert proposal.isr == (1,)


@pytest.mark.parametrize(
    ("isr", "limits", "expected"),
    [
        ((1, 2), TWO_MIN, ErrorCode.none),
        ((1,), TWO_MIN, ErrorCode.not_enough_replicas_after_append),
        ((1,), ONE_MIN, ErrorCode.none),
    ],
)
def test_acknowledgements(isr: tuple[int, ...], limits: ReplicationLimits, expected: ErrorCode) -> None:
    state = leading(*isr)
    assert state.acknowledgement(10, 9, limits) is None
    assert state.acknowledgement(10, 10, limits) is expected


def test_too_few_replicas_refuse_appends() -> None:
    leading(1, 2).require_min_isr(TWO_MIN)
    with pytest.raises(OperationError) as caught:
        leading(1).require_min_isr(TWO_MIN)
    assert caught.value.error_code is ErrorCode.not_enough_replicas


def test_replicas_come_and_go_with_a_reassignment() -> None:
    state = leading(1, 2)
    fetch(state, 2, 10, end=10)
    state.published(partition(1, 2, replicas=(1, 2, 4), partition_epoch=11), 50)
    assert set(state.followers) == {2, 4}
    assert state.followers[2].log_end_offset == 10
    with pytest.raises(OperationError) as caught:
        fetch(state, 3, 1, end=10)
    assert caught.value.error_code is ErrorCode.not_leader_or_follower
    state.published(partition(1, 2, 3, partition_epoch=9), 60)
    assert set(state.followers) == {2, 4}


def test_a_leader_stands_alone_while_no_follower_is_or_may_be_in_sync() -> None:
    assert not leading(1, 2).stands_alone
    state = leading(1)
    assert state.stands_alone
    fetch(state, 2, 10, end=10)
    assert state.propose_expansion(2, LeaderLog(10, 10), BROKERS) is not None
    assert not state.stands_alone


def test_the_low_watermark_is_that_of_the_living() -> None:
    state = leading(1, 2, 3)
    # No follower has fetched yet.
    assert state.low_watermark(5, BROKERS) == -1
    state.fetched(2, FollowerFetch(10, 4, 2), LeaderLog(10, 0), 0)
    state.fetched(3, FollowerFetch(10, 2, 3), LeaderLog(10, 0), 0)
    assert state.low_watermark(5, BROKERS) == 2
    assert state.low_watermark(1, BROKERS) == 1
    fenced = {**BROKERS, 3: replace(BROKERS[3], fenced=True)}
    assert state.low_watermark(5, fenced) == 4
    assert state.low_watermark(5, {1: BROKERS[1]}) == 5


def test_the_epoch_begins_where_the_log_of_the_new_leader_ended() -> None:
    assert leading(1, end_offset=7).epoch_start_offset == 7
