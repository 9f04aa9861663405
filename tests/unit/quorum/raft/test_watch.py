from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crabka.errors import CrabkaError, OperationError
from crabka.kraft.messages import LeaderHint
from crabka.kraft.roles import RoleName
from crabka.kraft.voters import VoterEndpoint
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.watch import QuorumLeader, QuorumWatch
from tests.support.async_tests import real_time, run_with

HERE = (VoterEndpoint("CONTROLLER", "c2", 9093),)


class WatchedReplica:
    """The parts of a replica that are looked at, set by hand."""

    def __init__(self) -> None:
        self.core = SimpleNamespace(
            leader=LeaderHint(0), role=RoleName.UNATTACHED, is_leader=False, leader_high_watermark=None
        )
        self.applier = SimpleNamespace(applied_to=0, image=SimpleNamespace(is_empty=True))
        self.leading = SimpleNamespace(active_epoch=None)
        parts: tuple[Any, Any, Any] = (self.core, self.applier, self.leading)
        self.watch = QuorumWatch(*parts)

    def follow(self, high_watermark: int | None) -> None:
        self.core.leader, self.core.role = LeaderHint(3, 2, HERE), RoleName.FOLLOWER
        self.core.leader_high_watermark = high_watermark
        self.watch.update()

    def apply(self, offset: int) -> None:
        self.applier.applied_to, self.applier.image.is_empty = offset, offset <= 1
        self.watch.update()


def test_changes_of_the_leader_are_reported_once() -> None:
    replica = WatchedReplica()
    reported: list[QuorumLeader] = []
    unsubscribe = replica.watch.subscribe(reported.append)
    replica.follow(None)
    replica.watch.update()
    assert reported == [QuorumLeader(None, 0), QuorumLeader(2, 3, HERE)]
    assert replica.watch.leader == reported[-1]
    unsubscribe()
    replica.core.leader = LeaderHint(4)
    replica.watch.update()
    assert len(reported) == 2
    assert replica.watch.leader == QuorumLeader(None, 4)


def test_a_leader_that_resigned_is_none() -> None:
    replica = WatchedReplica()
    replica.core.leader, replica.core.role = LeaderHint(3, 1, HERE), RoleName.RESIGNED
    replica.watch.update()
    assert replica.watch.leader == QuorumLeader(None, 3)


def test_a_follower_has_caught_up_at_the_high_watermark_that_it_received_first() -> None:
    replica = WatchedReplica()
    for high_watermark in (None, 5, 9):
        replica.follow(high_watermark)
    replica.apply(4)
    assert not replica.watch.caught_up
    replica.apply(5)
    assert replica.watch.caught_up


def test_a_new_cluster_without_features_is_not_enough() -> None:
    replica = WatchedReplica()
    replica.follow(1)
    replica.apply(1)
    assert not replica.watch.caught_up
    replica.apply(8)
    assert replica.watch.caught_up


def test_a_leader_has_caught_up_when_it_is_active() -> None:
    replica = WatchedReplica()
    replica.core.is_leader, replica.core.leader_high_watermark = True, 3
    replica.apply(3)
    assert not replica.watch.caught_up
    replica.leading.active_epoch = 3
    replica.watch.update()
    assert replica.watch.caught_up


@run_with(real_time)
async def test_those_who_wait_are_notified_of_success_and_failure() -> None:
    replica = WatchedReplica()
    first, gone = replica.watch.when_caught_up(), replica.watch.when_caught_up()
    gone.cancel()
    error: CrabkaError = OperationError(ErrorCode.not_controller, "closed")
    replica.watch.fail(error)
    with pytest.raises(OperationError, match="closed"):
        await first
    replica.follow(2)
    replica.apply(2)
    await replica.watch.when_caught_up()
