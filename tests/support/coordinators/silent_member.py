"""A member of a classic group that joins and then says nothing: it stays until its session ends."""

from __future__ import annotations

import struct
from typing import Any

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.coordinator_requests import ask_coordinator
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode

SESSION_MS = 300_000
# Later versions want a second request with the member id that the first got.
LAST_VERSION_WITH_ONE_STEP = 3


async def join_silently(cluster: Cluster, group_id: str, topic: str, partitions: tuple[int, ...] = (0,)) -> str:
    """Join a group as its only member, take the partitions, and return the member id."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    subscription = struct.pack(">hi", 0, 1) + name + struct.pack(">i", -1)
    indexes = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    assignment = struct.pack(">hi", 0, 1) + name + indexes + struct.pack(">i", -1)

    def join(types: MessageTypes) -> Any:
        protocol = types.new("JoinGroupRequestProtocol", name="range", metadata=subscription)
        return types.message(
            group_id=group_id,
            session_timeout=SESSION_MS,
            rebalance_timeout=SESSION_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )

    async def ask(connection: Connection) -> str:
        joined = await connection.request(ApiKey.JOIN_GROUP, join, max_version=LAST_VERSION_WITH_ONE_STEP)
        _check(joined.error_code)

        def sync(types: MessageTypes) -> Any:
            own = types.new("SyncGroupRequestAssignment", member_id=joined.member_id, assignment=assignment)
            return types.message(
                group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[own]
            )

        synced = await connection.request(ApiKey.SYNC_GROUP, sync, max_version=LAST_VERSION_WITH_ONE_STEP)
        _check(synced.error_code)
        return str(joined.member_id)

    return await ask_coordinator(cluster, group_id, ask)


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise OperationError(code)
