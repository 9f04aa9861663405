"""A member that speaks the classic protocol, eagerly: it lets go of everything before it joins again."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinator_sim.ledger import REBALANCE_MS, SESSION_MS, Ledger, Place
from tests.support.coordinator_sim.member import NO_EPOCH, RETRY_S, Member
from tests.support.coordinators.members import subscription
from tests.support.power_loss.machine import Machine

PROTOCOL = "range"
# A join is answered when all others have joined, or were given up.
JOIN_TIMEOUT_MS = REBALANCE_MS + 6_000


def pack_assignment(places: Sequence[Place]) -> bytes:
    """Encode an assignment as consumers do."""
    topics = sorted({topic for topic, _ in places})
    packed = [struct.pack(">hi", 1, len(topics))]
    for topic in topics:
        indexes = [index for name, index in places if name == topic]
        packed.append(struct.pack(">h", len(topic)) + topic.encode())
        packed.append(struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join(packed) + struct.pack(">i", -1)


def read_assignment(data: bytes) -> list[Place]:
    """Decode an assignment; none at all is empty."""
    places: list[Place] = []
    if not data:
        return places
    _, count = struct.unpack_from(">hi", data)
    position = 6
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data, position)
        topic = data[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (indexes,) = struct.unpack_from(">i", data, position)
        places += [(topic, index) for index in struct.unpack_from(f">{indexes}i", data, position + 4)]
        position += 4 + 4 * indexes
    return places


class EagerMember(Member):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

    def __init__(self, name: str, group_id: str, machine: Machine, ledger: Ledger, places: Sequence[Place]) -> None:
        super().__init__(name, group_id, machine, ledger)
        self._places = list(places)
        self._joined = False

    async def keep_up(self) -> None:
        """Heartbeat; join when there is a reason to."""
        if self._joined:
            await self._heartbeat()
        while not self._joined:
            await self._join()

    async def leave(self) -> None:
        """Leave with a word."""
        self.let_go(set(self.assigned))

        def build(types: Any) -> Any:
            identity = types.new("MemberIdentity", member_id=self.member_id, group_instance_id=None, reason=None)
            return types.message(group_id=self.group_id, members=[identity])

        await self.line.ask(ApiKey.LEAVE_GROUP, build)
        self._joined, self.member_id = False, ""

    async def _heartbeat(self) -> None:
        sent_s = self.machine.loop.time()
        answer = await self.line.ask(
            ApiKey.HEARTBEAT,
            lambda types: types.message(
                group_id=self.group_id, generation_id=self.epoch, member_id=self.member_id, group_instance_id=None
            ),
        )
        self._take_in(ErrorCode(answer.error_code), sent_s)

    def _take_in(self, error_code: ErrorCode, sent_s: float) -> None:
        match error_code:
            case ErrorCode.none:
                self.heard(sent_s)
            case ErrorCode.rebalance_in_progress:
                self.heard(sent_s)
                self._joined = False
            case ErrorCode.unknown_member_id | ErrorCode.illegal_generation:
                self.let_go(set(self.assigned))
                self._joined = False
                if error_code is ErrorCode.unknown_member_id:
                    self.member_id = ""

    async def _join(self) -> None:
        self.let_go(set(self.assigned))
        sent_s = self.machine.loop.time()
        answer = await self.line.ask(ApiKey.JOIN_GROUP, self._join_body, timeout_ms=JOIN_TIMEOUT_MS)
        error_code = ErrorCode(answer.error_code)
        if error_code is ErrorCode.member_id_required:
            self.member_id = answer.member_id
        elif error_code is ErrorCode.none:
            self.heard(sent_s)
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.machine.trace.note(f"{self.name} joined generation {self.epoch} as {self.member_id[:12]}")
            await self._sync(answer)
        else:
            if error_code is ErrorCode.unknown_member_id:
                self.member_id = ""
            await asyncio.sleep(RETRY_S)

    def _join_body(self, types: Any) -> Any:
        topics = sorted({topic for topic, _ in self._places})
        return types.message(
            group_id=self.group_id,
            session_timeout=SESSION_MS,
            rebalance_timeout=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[types.new("JoinGroupRequestProtocol", name=PROTOCOL, metadata=subscription(*topics))],
            reason=None,
        )

    async def _sync(self, joined: Any) -> None:
        shares: dict[str, list[Place]] = {row.member_id: [] for row in joined.members}
        for number, place in enumerate(self._places if shares else ()):
            shares[sorted(shares)[number % len(shares)]].append(place)

        def build(types: Any) -> Any:
            rows = [
                types.new("SyncGroupRequestAssignment", member_id=member_id, assignment=pack_assignment(share))
                for member_id, share in shares.items()
            ]
            return types.message(
                group_id=self.group_id,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=rows,
            )

        sent_s = self.machine.loop.time()
        answer = await self.line.ask(ApiKey.SYNC_GROUP, build, timeout_ms=JOIN_TIMEOUT_MS)
        if answer.error_code is ErrorCode.none:
            self.heard(sent_s)
            self._joined = True
            await self.take(read_assignment(bytes(answer.assignment)))
        else:
            self._take_in(ErrorCode(answer.error_code), sent_s)
            self.epoch = NO_EPOCH if answer.error_code is ErrorCode.unknown_member_id else self.epoch
            await asyncio.sleep(RETRY_S)
