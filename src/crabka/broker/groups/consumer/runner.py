"""The shell around the cores of consumer groups: steps them, appends, answers, upgrades and downgrades."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from crabka.broker.coordinators.appender import coordinator_error
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.consumer.member import JOINING_EPOCH
from crabka.broker.groups.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    CreationFailed,
    Downgraded,
    PersistBatch,
    RecordsStored,
)
from crabka.broker.groups.consumer.migration import check_upgrade
from crabka.broker.groups.member import NEVER
from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import Answer, Tick, Transitioned
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.coordinators.timers import DeadlineQueue
    from crabka.broker.groups.consumer.messages import ConsumerAction, ConsumerEvent
    from crabka.broker.groups.coordinator import GroupCoordinator
    from crabka.broker.groups.messages import Heartbeat, Join, Leave, Sync
    from crabka.broker.groups.shard import HostedShard

logger = logging.getLogger(__name__)


class ConsumerRunner:
    """Runs the consumer groups of one coordinator."""

    def __init__(self, coordinator: GroupCoordinator, deadlines: DeadlineQueue) -> None:
        self._coordinator = coordinator
        self._deadlines = deadlines

    async def heartbeat(self, group_id: str, event: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """Step a group with a heartbeat and return its answer.

        Raises OperationError: GROUP_ID_NOT_FOUND, or that this node does not coordinate the group.
        """
        return cast("ConsumerHeartbeatResult", await self.wait(self._report(group_id, event), event))

    def _report(self, group_id: str, event: ConsumerHeartbeat) -> ConsumerGroup:
        """Step a group; a member that joins creates the group, or upgrades a classic one.

        Raises OperationError: GROUP_ID_NOT_FOUND, or that this node does not coordinate the group.
        """
        hosted, group = self._coordinator.group(group_id)
        if isinstance(group, ConsumerGroup):
            self.step(hosted, group, event)
            return group
        if event.member_epoch != JOINING_EPOCH or not isinstance(group, ClassicGroup | None):
            known = "is not a consumer group" if group is not None else "not found"
            raise OperationError(ErrorCode.group_id_not_found, f"Group {group_id} {known}.")
        created = hosted.shard.consumer_group(group_id)
        if group is not None:
            classic = group.membership
            if classic.members or classic.pending_members:
                check_upgrade(classic, created.context.settings)
            created.upgrade(classic)
        actions = created.step(event, self._coordinator.now_ms())
        if any(isinstance(action, PersistBatch) for action in actions):
            if group is not None:
                self._coordinator.retire_classic(hosted, group, ErrorCode.rebalance_in_progress)
            hosted.shard.groups[group_id] = created
        self._execute(hosted, created, actions)
        self.arm(hosted, created)
        return created

    def step(self, hosted: HostedShard, group: ConsumerGroup, event: ConsumerEvent) -> None:
        """Step a group and execute its actions."""
        self._execute(hosted, group, group.step(event, self._coordinator.now_ms()))
        self.arm(hosted, group)

    async def wait(self, group: ConsumerGroup, event: ConsumerHeartbeat | Join | Sync | Heartbeat | Leave) -> Any:
        """Return the answer to a request; COORDINATOR_NOT_AVAILABLE if there is none in time, so that clients retry.

        Records in flight are still stored. A request that waits for them is withdrawn.
        """
        timeout_ms = self._coordinator.store_timeout_ms
        result = await event.reply.wait_in_time(timeout_ms, None)
        if result is not None:
            return result
        group.withdraw(event)
        return group.refuse(event, ErrorCode.coordinator_not_available)

    def start(self, hosted: HostedShard, group: ConsumerGroup) -> None:
        """Start to run a loaded group."""
        group.loaded(self._coordinator.now_ms())
        self.arm(hosted, group)

    def retire(self, hosted: HostedShard, group: ConsumerGroup, error_code: ErrorCode) -> None:
        """End a group on this node and answer waiting requests with the error."""
        self._execute(hosted, group, group.retire(error_code))
        self._deadlines.disarm(group)

    def arm(self, hosted: HostedShard, group: ConsumerGroup) -> None:
        """Set the timer of a group to its first deadline; a group that stores a batch is armed after that."""
        deadline_ms = group.deadlines.first_ms
        if deadline_ms != NEVER and hosted.is_active and not (group.is_dead or group.store.is_storing):
            self._deadlines.arm(group, deadline_ms, partial(self._on_deadline, hosted, group))

    def _on_deadline(self, hosted: HostedShard, group: ConsumerGroup) -> None:
        if hosted.is_active and not group.is_dead:
            self.step(hosted, group, Tick())

    def _execute(self, hosted: HostedShard, group: ConsumerGroup, actions: Sequence[ConsumerAction]) -> None:
        for action in actions:
            match action:
                case Answer(reply, result):
                    reply.resolve(result)
                case PersistBatch(pairs):
                    self._coordinator.append(hosted, pairs, partial(self._stored, hosted, group))
                case Transitioned(old, new, epoch, reason):
                    logger.info("Group %r: %s -> %s, epoch %d: %s", group.group_id, old, new, epoch, reason)
                case Downgraded():
                    self._downgraded(hosted, group, action)
                case CreationFailed():
                    self._creation_failed(hosted, group)

    def _stored(self, hosted: HostedShard, group: ConsumerGroup, error_code: ErrorCode) -> None:
        if error_code is not ErrorCode.none:
            logger.warning("Cannot store group %r: %s", group.group_id, error_code.name)
        if not group.is_dead:
            self.step(hosted, group, RecordsStored(coordinator_error(error_code)))

    def _downgraded(self, hosted: HostedShard, group: ConsumerGroup, action: Downgraded) -> None:
        logger.info("Group %r has only members with the classic protocol: it is a classic group now", group.group_id)
        self._deadlines.disarm(group)
        action.membership.settings = hosted.shard.settings
        classic = ClassicGroup(action.membership)
        if hosted.shard.groups.get(group.group_id) is group:
            hosted.shard.groups[group.group_id] = classic
        if action.rebalances:
            self._coordinator.rebalance_classic(hosted, classic, "the group was downgraded")
        else:
            self._coordinator.arm_classic(hosted, classic)
        for event in group.take_deferred():
            if isinstance(event, ConsumerHeartbeat):
                event.reply.resolve(ConsumerHeartbeatResult(ErrorCode.coordinator_not_available))
            elif classic.state is not GroupState.DEAD:
                self._coordinator.step(hosted, classic, event)

    def _creation_failed(self, hosted: HostedShard, group: ConsumerGroup) -> None:
        self._deadlines.disarm(group)
        for event in group.take_deferred():
            event.reply.resolve(group.refuse(event, ErrorCode.coordinator_not_available))
        if hosted.shard.groups.get(group.group_id) is not group:
            return
        del hosted.shard.groups[group.group_id]
        if group.origin is not None:
            classic = self._coordinator.create_group(hosted, group.group_id)
            classic.membership.restore(group.origin, self._coordinator.now_ms())
            hosted.shard.groups[group.group_id] = classic
            self._coordinator.arm_classic(hosted, classic)
