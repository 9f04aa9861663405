"""Many members of one group in one process: each a connection that speaks the group protocol and nothing else.

Real consumers would spend more on themselves than the coordinator spends on them. Members ask again every
HEARTBEAT_S, far more often than real ones, so that what is measured is the coordinator and not their patience.
"""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from crabka.clients.cluster.connection import Connection
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime import AsyncioNetwork

HEARTBEAT_S = 0.03
STABLE_TIMEOUT_S = 120.0
SESSION_MS = 45_000
GROUP_KEY_TYPE = 0
NO_EPOCH, LEAVE_EPOCH = 0, -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the members of a group share: the group and its only topic."""

    group: str
    topic: str
    topic_id: uuid.UUID
    partition_count: int


class LightMember(ABC):
    """One member; `generation` and `owned` say where it stands, `settled` whether it waits for nothing."""

    def __init__(self, connection: Connection, subscription: Subscription) -> None:
        """The connection is the member's own."""
        self.connection = connection
        self.subscription = subscription
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.settled = False

    async def live(self) -> None:
        """Take part until cancelled."""
        while True:
            await self.step()
            if self.settled:
                await asyncio.sleep(HEARTBEAT_S)

    @abstractmethod
    async def step(self) -> None:
        """Ask the coordinator once and do what it says."""

    @abstractmethod
    async def leave(self) -> None:
        """Say goodbye."""


class LightClassicMember(LightMember):
    """JoinGroup, SyncGroup, Heartbeat; the leader deals the partitions out in turn."""

    member_id = ""

    async def step(self) -> None:
        """Heartbeat while settled, else join and sync."""
        if not self.settled:
            await self._join()
            return
        answer = await self.connection.request(ApiKey.HEARTBEAT, self._heartbeat)
        self.settled = answer.error_code is ErrorCode.none

    async def _join(self) -> None:
        joined = await self.connection.request(ApiKey.JOIN_GROUP, self._join_body, SESSION_MS)
        self.member_id = joined.member_id or self.member_id
        if joined.error_code is ErrorCode.unknown_member_id:
            self.member_id = ""
        if joined.error_code is not ErrorCode.none:
            return
        self.generation = joined.generation_id
        leads = joined.leader == self.member_id
        shares = self._deal([member.member_id for member in joined.members]) if leads else {}
        synced = await self.connection.request(
            ApiKey.SYNC_GROUP, lambda types: self._sync_body(types, joined, shares), SESSION_MS
        )
        if synced.error_code is ErrorCode.none:
            self.owned = decode_assignment(synced.assignment)
            self.settled = True

    def _deal(self, members: list[str]) -> dict[str, bytes]:
        count = self.subscription.partition_count
        return {
            member: encode_assignment(self.subscription.topic, range(index, count, len(members)))
            for index, member in enumerate(members)
        }

    def _join_body(self, types: MessageTypes) -> Any:
        topic = self.subscription.topic.encode()
        metadata = struct.pack(f">hih{len(topic)}si", 0, 1, len(topic), topic, -1)
        return types.message(
            group_id=self.subscription.group,
            session_timeout=SESSION_MS,
            rebalance_timeout=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[types.new("JoinGroupRequestProtocol", name="light", metadata=metadata)],
            reason=None,
        )

    def _sync_body(self, types: MessageTypes, joined: Any, shares: dict[str, bytes]) -> Any:
        assignments = [
            types.new("SyncGroupRequestAssignment", member_id=member, assignment=share)
            for member, share in shares.items()
        ]
        return types.message(
            group_id=self.subscription.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )

    def _heartbeat(self, types: MessageTypes) -> Any:
        return types.message(
            group_id=self.subscription.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
        )

    async def leave(self) -> None:
        """LeaveGroup."""

        def body(types: MessageTypes) -> Any:
            member = types.new("MemberIdentity", member_id=self.member_id, group_instance_id=None, reason=None)
            return types.message(group_id=self.subscription.group, members=[member])

        await self.connection.request(ApiKey.LEAVE_GROUP, body)


class LightConsumerMember(LightMember):
    """ConsumerGroupHeartbeat (KIP-848): gives up and takes what it is told, and says so at once."""

    def __init__(self, connection: Connection, subscription: Subscription) -> None:
        """Members choose their ids themselves."""
        super().__init__(connection, subscription)
        self.member_id = str(uuid.uuid4())
        self.generation = NO_EPOCH

    async def step(self) -> None:
        """One heartbeat; settled when it changed nothing."""
        answer = await self._beat(self.generation)
        if answer.error_code is not ErrorCode.none:
            self.generation, self.owned, self.settled = NO_EPOCH, frozenset(), False
            return
        told = self.owned
        if answer.assignment is not None:
            told = frozenset(index for topic in answer.assignment.topic_partitions for index in topic.partitions)
        self.settled = told == self.owned and answer.member_epoch == self.generation
        self.owned, self.generation = told, answer.member_epoch

    async def leave(self) -> None:
        """The heartbeat that says goodbye."""
        await self._beat(LEAVE_EPOCH)

    async def _beat(self, epoch: int) -> Any:
        def body(types: MessageTypes) -> Any:
            owned = types.new("TopicPartitions", topic_id=self.subscription.topic_id, partitions=sorted(self.owned))
            return types.message(
                group_id=self.subscription.group,
                member_id=self.member_id,
                member_epoch=epoch,
                rebalance_timeout=SESSION_MS,
                subscribed_topic_names=[self.subscription.topic],
                subscribed_topic_regex=None,
                server_assignor=None,
                topic_partitions=[owned] if self.owned else [],
            )

        return await self.connection.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)


def encode_assignment(topic: str, partitions: range) -> bytes:
    """A version 0 assignment of one topic, as consumers write it."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + struct.pack(">i", -1)


def decode_assignment(data: bytes) -> frozenset[int]:
    """The partitions of an assignment of one topic; nothing is an empty one."""
    if not data:
        return frozenset()
    (name_length,) = struct.unpack_from(">h", data, 6)
    (count,) = struct.unpack_from(">i", data, 8 + name_length)
    return frozenset(struct.unpack_from(f">{count}i", data, 12 + name_length))


def is_stable(members: list[LightMember], partition_count: int) -> bool:
    """Whether all members settled in one generation that gives every partition one owner and all equal shares."""
    if not all(member.settled for member in members) or len({member.generation for member in members}) > 1:
        return False
    owned = [index for member in members for index in member.owned]
    shares = [len(member.owned) for member in members]
    return len(owned) == len(set(owned)) == partition_count and max(shares) - min(shares) <= 1


PROTOCOLS: dict[str, type[LightMember]] = {"classic": LightClassicMember, "consumer": LightConsumerMember}


def rebalance_times(
    bootstrap: str, protocol: str, subscription: Subscription, member_count: int
) -> tuple[float, float]:
    """Seconds until so many members that start at once are stable, and until they are again after one is replaced."""
    return asyncio.run(_rebalance(bootstrap, PROTOCOLS[protocol], subscription, member_count))


async def _rebalance(
    bootstrap: str, kind: type[LightMember], subscription: Subscription, member_count: int
) -> tuple[float, float]:
    host, _, port = bootstrap.rpartition(":")
    network = AsyncioNetwork()
    # One more for the member that replaces another.
    connections = [await Connection.open(network, host, int(port)) for _ in range(member_count + 1)]
    await wait_coordinator(connections[0], subscription.group)
    members = [kind(connection, subscription) for connection in connections]
    newcomer = members.pop()
    lives: dict[LightMember, asyncio.Task[None]] = {}
    try:
        async with asyncio.timeout(STABLE_TIMEOUT_S), asyncio.TaskGroup() as group:
            begin = time.perf_counter()
            lives = {member: group.create_task(member.live()) for member in members}
            await _wait_stable(members, subscription)
            started = time.perf_counter()
            leaver = members.pop(0)
            lives.pop(leaver).cancel()
            await leaver.leave()
            await _wait_stable(members, subscription)
            members.append(newcomer)
            lives[newcomer] = group.create_task(newcomer.live())
            await _wait_stable(members, subscription)
            ended = time.perf_counter()
            for life in lives.values():
                life.cancel()
    finally:
        for connection in connections:
            connection.close()
            await connection.wait_closed()
    return started - begin, ended - started


async def wait_coordinator(connection: Connection, group: str) -> None:
    """Ask until the group has a coordinator: the first question creates the offsets topic."""

    def body(types: MessageTypes) -> Any:
        return types.message(key_type=GROUP_KEY_TYPE, coordinator_keys=[group])

    await _until(lambda: _has_coordinator(connection, body))


async def _has_coordinator(connection: Connection, body: Callable[[MessageTypes], Any]) -> bool:
    answer = await connection.request(ApiKey.FIND_COORDINATOR, body)
    return bool(answer.coordinators[0].error_code is ErrorCode.none)


async def _wait_stable(members: list[LightMember], subscription: Subscription) -> None:
    async def stable() -> bool:
        return is_stable(members, subscription.partition_count)

    await _until(stable)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - the other side can only be asked
        await asyncio.sleep(0.005)
