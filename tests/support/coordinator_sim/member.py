"""What members of both protocols share: commits, committed offsets, pauses and sudden ends."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from crabka.errors import CrabkaError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinator_sim.ledger import SESSION_MS, Ledger, Owner, Place
from tests.support.coordinator_sim.line import Line
from tests.support.power_loss.machine import Machine

# The last versions that name topics; later ones speak of ids.
COMMIT_VERSION = 9
FETCH_VERSION = 9
HEARTBEAT_S = 1.5
RETRY_S = 0.2
NO_EPOCH = -1


class Member(ABC):
    """A consumer that does nothing but to commit higher and higher offsets of what it owns."""

    def __init__(self, name: str, group_id: str, machine: Machine, ledger: Ledger) -> None:
        self.name = name
        self.group_id = group_id
        self.machine = machine
        self.ledger = ledger
        self.rng = random.Random(machine.rng.getrandbits(64))
        self.line = Line(machine, name)
        self.owner = Owner(name, group_id)
        # What it believes to own, also when its time is over and the ledger knows better.
        self.assigned: set[Place] = set()
        self.positions: dict[Place, int] = {}
        self.member_id = ""
        self.epoch = NO_EPOCH
        self._pauses = True

    # -- what the protocols do differently -----------------------------------------------------------------------

    @abstractmethod
    async def keep_up(self) -> None:
        """Join if need be, and tell that the member is alive."""

    @abstractmethod
    async def leave(self) -> None:
        """Say good-bye."""

    # -- life ----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Be a member until cancelled, which is a death without a word."""
        try:
            while True:
                try:
                    await self.keep_up()
                    await self.work()
                except CrabkaError as error:
                    self.machine.trace.note(f"{self.name}: {error}")
                    await asyncio.sleep(RETRY_S)
                await self._rest()
        finally:
            self.line.close()

    async def settle(self) -> None:
        """From now on do not pause."""
        self._pauses = False

    async def _rest(self) -> None:
        if self._pauses and self.rng.random() < 0.03:
            pause_ms = self.rng.uniform(0.3, 2) * SESSION_MS
            self.machine.trace.note(f"{self.name} pauses for {pause_ms:.0f} ms")
            await asyncio.sleep(pause_ms / 1000)
            # What it does first after a pause is what a zombie does.
            await self._commit_as_zombie()
        else:
            await asyncio.sleep(self.rng.uniform(0.05, HEARTBEAT_S))

    async def _commit_as_zombie(self) -> None:
        try:
            await self.work()
        except CrabkaError as error:
            self.machine.trace.note(f"{self.name}: {error}")

    async def work(self) -> None:
        """Commit some of what it owns."""
        places = [place for place in sorted(self.assigned) if self.rng.random() < 0.6]
        if places:
            await self.commit({place: self.positions[place] + self.rng.randrange(1, 5) for place in places})

    # -- offsets -------------------------------------------------------------------------------------------------

    async def take(self, places: Collection[Place]) -> None:
        """Own these from now on, and go on where the last owner left off."""
        self.ledger.claim(self.owner, places)
        self.assigned |= set(places)
        self.positions.update(dict.fromkeys(places, 0) | await self.committed(places))

    def let_go(self, places: Collection[Place]) -> None:
        """Stop to use these."""
        self.ledger.release(self.owner, places)
        self.assigned -= set(places)

    async def committed(self, places: Collection[Place]) -> dict[Place, int]:
        """Ask until the committed offsets are known; 0 where there is none."""
        while places:
            at_least = {place: self.ledger.acknowledged(self.group_id, place) for place in places}
            try:
                answer = (await self._fetch_offsets(places)).groups[0]
            except CrabkaError:
                await asyncio.sleep(RETRY_S)
                continue
            rows = {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}
            if answer.error_code is ErrorCode.none and all(row.error_code is ErrorCode.none for row in rows.values()):
                break
            await asyncio.sleep(RETRY_S)
        else:
            return {}
        found = {place: max(rows[place].committed_offset, 0) for place in places}
        for place, offset in found.items():
            self.ledger.check_committed(self.group_id, place, offset, at_least[place])
        return found

    async def commit(self, offsets: dict[Place, int]) -> None:
        """Commit once; it may be refused."""
        for place, offset in offsets.items():
            self.ledger.note_commit(self.group_id, place, offset, acknowledged=False)
        sent_s = self.machine.loop.time()
        answer = await self.line.ask(
            ApiKey.OFFSET_COMMIT, lambda types: self._commit_body(types, offsets), max_version=COMMIT_VERSION
        )
        codes = {row.error_code for topic in answer.topics for row in topic.partitions}
        if codes == {ErrorCode.none}:
            self.heard(sent_s)
            for place, offset in offsets.items():
                self.ledger.note_commit(self.group_id, place, offset, acknowledged=True)
                self.positions[place] = offset
        else:
            self.machine.trace.note(f"{self.name}: commit refused: {[code.name for code in codes]}")

    def heard(self, sent_s: float) -> None:
        """The coordinator answered a request that was sent then."""
        self.owner.last_heard_s = max(self.owner.last_heard_s, sent_s)

    def _commit_body(self, types: Any, offsets: dict[Place, int]) -> Any:
        topics = [
            types.new(
                "OffsetCommitRequestTopic",
                name=topic,
                partitions=[
                    types.new(
                        "OffsetCommitRequestPartition",
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=self.name,
                    )
                    for (name, index), offset in offsets.items()
                    if name == topic
                ],
            )
            for topic in sorted({topic for topic, _ in offsets})
        ]
        return types.message(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=None,
            retention_time=-1,
            topics=topics,
        )

    async def _fetch_offsets(self, places: Collection[Place]) -> Any:
        def build(types: Any) -> Any:
            topics = [
                types.new(
                    "OffsetFetchRequestTopics",
                    name=topic,
                    partition_indexes=[index for name, index in sorted(places) if name == topic],
                )
                for topic in sorted({topic for topic, _ in places})
            ]
            group = types.new(
                "OffsetFetchRequestGroup", group_id=self.group_id, member_id=None, member_epoch=-1, topics=topics
            )
            return types.message(groups=[group], require_stable=True)

        return await self.line.ask(ApiKey.OFFSET_FETCH, build, max_version=FETCH_VERSION)
