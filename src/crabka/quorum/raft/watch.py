"""Notifies a node of its quorum's leader, and once this replica has caught up after its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from crabka.kraft.roles import RoleName

if TYPE_CHECKING:
    from crabka.errors import CrabkaError
    from crabka.kraft.core import KraftCore
    from crabka.kraft.voters import VoterEndpoint
    from crabka.quorum.raft.applier import MetadataApplier
    from crabka.quorum.raft.leadership import RaftLeadership


class QuorumLeader(NamedTuple):
    """The leader that this replica knows, its epoch, and its endpoints for controllers and brokers."""

    leader_id: int | None
    epoch: int
    endpoints: tuple[VoterEndpoint, ...] = ()


LeaderListener = Callable[[QuorumLeader], None]


class QuorumWatch:
    """Notifies of changes of the leader, and once when the replica has everything committed before its start."""

    def __init__(self, core: KraftCore, applier: MetadataApplier, leading: RaftLeadership) -> None:
        self._core = core
        self._applier = applier
        self._leading = leading
        self._listeners: list[LeaderListener] = []
        self._waiting: list[asyncio.Future[None]] = []
        # The first high watermark from a leader: the replica must reach it to have caught up.
        self._goal: int | None = None
        self.leader = self._now()
        self.caught_up = False

    def subscribe(self, listener: LeaderListener) -> Callable[[], None]:
        """Call `listener(leader)` now and after every change; return how to unsubscribe."""
        self._listeners.append(listener)
        listener(self.leader)
        return lambda: self._listeners.remove(listener)

    def when_caught_up(self) -> asyncio.Future[None]:
        """Return a future that is done once the replica has caught up."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.caught_up:
            waiter.set_result(None)
        else:
            self._waiting.append(waiter)
        return waiter

    def update(self) -> None:
        """Check the replica after a step."""
        leader = self._now()
        if leader != self.leader:
            self.leader = leader
            for listener in list(self._listeners):
                listener(leader)
        if not self.caught_up and self._has_caught_up():
            self.caught_up = True
            self._settle(None)

    def fail(self, error: CrabkaError) -> None:
        """Fail callers that wait: the replica will not catch up."""
        self._settle(error)

    def _now(self) -> QuorumLeader:
        epoch, leader_id, endpoints = self._core.leader
        if leader_id is None or self._core.role is RoleName.RESIGNED:
            return QuorumLeader(None, epoch)
        return QuorumLeader(leader_id, epoch, endpoints)

    def _has_caught_up(self) -> bool:
        if self._core.is_leader:
            return self._leading.active_epoch is not None
        if self._goal is None:
            self._goal = self._core.leader_high_watermark
        # The first leader of a new cluster commits its epoch before it writes the features.
        return self._goal is not None and self._applier.applied_to >= self._goal and not self._applier.image.is_empty

    def _settle(self, error: CrabkaError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
