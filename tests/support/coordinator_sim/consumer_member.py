"""A member that speaks the consumer protocol (KIP-848): one heartbeat says and hears everything."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinator_sim.ledger import REBALANCE_MS, Ledger, Place
from tests.support.coordinator_sim.member import Member
from tests.support.power_loss.machine import Machine

JOINING = 0
LEAVING = -1
# The last is returned when the group went back to the classic protocol without this member, which then starts anew.
LOST = (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found)


class ReconcilingMember(Member):
    """ConsumerGroupHeartbeat."""

    def __init__(
        self, name: str, group_id: str, machine: Machine, ledger: Ledger, topics: Mapping[str, uuid.UUID]
    ) -> None:
        super().__init__(name, group_id, machine, ledger)
        self._ids = dict(topics)
        self._names = {topic_id: topic for topic, topic_id in topics.items()}
        self.member_id = str(uuid.UUID(int=self.rng.getrandbits(128)))
        self.epoch = JOINING
        # Whether the coordinator must receive everything: after an error it may have missed what was said.
        self._says_all = True

    async def keep_up(self) -> None:
        """Heartbeat until nothing is left to report."""
        while True:
            before = set(self.assigned)
            answer = await self._heartbeat()
            if answer.error_code in LOST:
                self.let_go(before)
                self.epoch, self._says_all = JOINING, True
                continue
            if answer.error_code is not ErrorCode.none or answer.assignment is None:
                return
            await self._reconcile(
                {
                    (self._names[row.topic_id], index)
                    for row in answer.assignment.topic_partitions
                    for index in row.partitions
                }
            )
            if self.assigned == before:
                return

    async def leave(self) -> None:
        """Leave with a word."""
        self.let_go(set(self.assigned))
        self.epoch = LEAVING
        await self._heartbeat()

    async def _reconcile(self, target: set[Place]) -> None:
        revoked = self.assigned - target
        if revoked and self.rng.random() < 0.5:
            await self.commit({place: self.positions[place] + 1 for place in revoked})
        self.let_go(revoked)
        await self.take(target - self.assigned)

    async def _heartbeat(self) -> Any:
        sent_s = self.machine.loop.time()
        says_all, self._says_all = self._says_all or self.epoch == JOINING, True
        answer = await self.line.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda types: self._body(types, says_all))
        if answer.error_code is ErrorCode.none:
            self._says_all = False
            self.epoch = answer.member_epoch
            self.heard(sent_s)
        else:
            self.machine.trace.note(f"{self.name}: heartbeat: {ErrorCode(answer.error_code).name}")
        return answer

    def _body(self, types: Any, says_all: bool) -> Any:
        owned = [
            types.new(
                "TopicPartitions",
                topic_id=topic_id,
                partitions=[index for name, index in sorted(self.assigned) if name == topic],
            )
            for topic, topic_id in self._ids.items()
            if any(name == topic for name, _ in self.assigned)
        ]
        return types.message(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=list(self._ids) if says_all else None,
            server_assignor="uniform" if says_all else None,
            topic_partitions=owned if self.epoch >= 0 else None,
        )
