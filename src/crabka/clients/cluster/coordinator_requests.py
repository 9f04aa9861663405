"""Requests to the coordinator of a group or a transactional id, with retries while it moves or loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, TypeVar

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import Connection
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode

T = TypeVar("T")

GROUP_KEY_TYPE: Final = 0
TRANSACTION_KEY_TYPE: Final = 1
COORDINATOR_MOVES: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    }
)

_KEY_NAMES: Final = {GROUP_KEY_TYPE: "group", TRANSACTION_KEY_TYPE: "transactional id"}


async def ask_coordinator(
    cluster: Cluster, group_id: str, ask: Callable[[Connection], Awaitable[T]], timeout_ms: int = 30_000
) -> T:
    """Call `ask` with a connection to the coordinator of a group.

    `ask` raises OperationError for error codes in the answer. While these say that the node is not the coordinator or
    still loads, and while it cannot be reached, the call is retried until the timeout. Raises the last error.
    """

    async def attempt() -> T:
        return await ask(await cluster.connection(await find_coordinator(cluster, group_id)))

    return await retry_passing(cluster, attempt, timeout_ms)


async def find_coordinator(cluster: Cluster, key: str, key_type: int = GROUP_KEY_TYPE) -> int:
    """Return the id of the broker that coordinates a group or a transactional id.

    Raises OperationError, ClientNetworkError.
    """

    def build(types: MessageTypes) -> Any:
        return types.message(key=key, coordinator_keys=[key], key_type=key_type)

    response = await cluster.request_any(ApiKey.FIND_COORDINATOR, build)
    # Up to version 3 the answer has one key.
    found = response.coordinators[0] if hasattr(response, "coordinators") else response
    if found.error_code is not ErrorCode.none:
        reason = getattr(found, "error_message", None) or found.error_code.name
        raise OperationError(found.error_code, f"no coordinator of {_KEY_NAMES[key_type]} {key}: {reason}")
    return int(found.node_id)


async def retry_passing(
    cluster: Cluster,
    attempt: Callable[[], Awaitable[T]],
    timeout_ms: int,
    passing: Collection[ErrorCode] = COORDINATOR_MOVES,
) -> T:
    """Call `attempt` until it succeeds, fails with another error than `passing` ones, or the timeout passes."""
    deadline_ms = cluster.runtime.clock.monotonic_ms() + timeout_ms
    backoff = cluster.backoff()
    while True:
        try:
            return await attempt()
        except OperationError as error:
            if error.error_code not in passing:
                raise
            failure: Exception = error
        except ClientNetworkError as error:
            failure = error
        pause_ms = backoff.next_ms()
        if cluster.runtime.clock.monotonic_ms() + pause_ms > deadline_ms:
            raise failure
        await asyncio.sleep(pause_ms / 1000)
