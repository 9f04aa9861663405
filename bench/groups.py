"""Many groups without members: each has committed one offset and is otherwise idle."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.members import wait_coordinator
from crabka.clients.cluster.connection import Connection
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime import AsyncioNetwork

# The last version that names topics instead of giving their ids.
COMMIT_VERSION = FETCH_VERSION = 9
IN_FLIGHT = 100
NO_MEMBER, NO_GENERATION, NO_EPOCH = "", -1, -1
RETRY_S = 0.1


def commit_groups(bootstrap: str, topic: str, count: int) -> None:
    """Commit one offset for each of so many groups."""
    asyncio.run(_commit_groups(bootstrap, topic, count))


def wait_for_groups(bootstrap: str, topic: str, count: int) -> None:
    """Wait until the offset of every group can be fetched again."""
    asyncio.run(_wait_for_groups(bootstrap, topic, count))


def group_name(number: int) -> str:
    """Return the name of a group."""
    return f"idle-group-{number}"


async def _open(bootstrap: str) -> Connection:
    host, _, port = bootstrap.rpartition(":")
    return await Connection.open(AsyncioNetwork(), host, int(port))


async def _commit_groups(bootstrap: str, topic: str, count: int) -> None:
    connection = await _open(bootstrap)
    try:
        await wait_coordinator(connection, group_name(0))
        for start in range(0, count, IN_FLIGHT):
            numbers = range(start, min(start + IN_FLIGHT, count))
            await asyncio.gather(*(_commit(connection, topic, number) for number in numbers))
    finally:
        connection.close()
        await connection.wait_closed()


async def _commit(connection: Connection, topic: str, number: int) -> None:
    def body(types: MessageTypes) -> Any:
        partition = types.new(
            "OffsetCommitRequestPartition",
            partition_index=0,
            committed_offset=number,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        return types.message(
            group_id=group_name(number),
            generation_id_or_member_epoch=NO_GENERATION,
            member_id=NO_MEMBER,
            group_instance_id=None,
            retention_time=-1,
            topics=[types.new("OffsetCommitRequestTopic", name=topic, partitions=[partition])],
        )

    while True:
        answer = await connection.request(ApiKey.OFFSET_COMMIT, body, max_version=COMMIT_VERSION)
        if answer.topics[0].partitions[0].error_code is ErrorCode.none:
            return
        await asyncio.sleep(RETRY_S)


async def _wait_for_groups(bootstrap: str, topic: str, count: int) -> None:
    connection = await _open(bootstrap)
    try:
        await wait_coordinator(connection, group_name(0))
        for start in range(0, count, IN_FLIGHT):
            numbers = range(start, min(start + IN_FLIGHT, count))
            told = await _committed(connection, topic, numbers)
            if told != list(numbers):
                raise RuntimeError(f"groups {numbers} have other offsets after the restart: {told[:5]}...")
    finally:
        connection.close()
        await connection.wait_closed()


async def _committed(connection: Connection, topic: str, numbers: range) -> list[int]:
    def body(types: MessageTypes) -> Any:
        rows = [
            types.new(
                "OffsetFetchRequestGroup",
                group_id=group_name(number),
                member_id=None,
                member_epoch=NO_EPOCH,
                topics=[types.new("OffsetFetchRequestTopics", name=topic, partition_indexes=[0])],
            )
            for number in numbers
        ]
        return types.message(groups=rows, require_stable=False)

    while True:
        answer = await connection.request(ApiKey.OFFSET_FETCH, body, max_version=FETCH_VERSION)
        if all(group.error_code is ErrorCode.none for group in answer.groups):
            return [group.topics[0].partitions[0].committed_offset for group in answer.groups]
        await asyncio.sleep(RETRY_S)
