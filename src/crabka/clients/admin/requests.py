"""Sends administrative requests to a node that can answer them. All parts of `Admin` share it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import BodyBuilder, Connection
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

# Transient codes: no node is the active controller now, or the one that was asked no longer is.
_RETRIED_CODES: Final = frozenset(
    {ErrorCode.not_controller, ErrorCode.not_leader_or_follower, ErrorCode.coordinator_load_in_progress}
)
_NESTED: Final = ("topics", "responses", "results", "partitions", "entries")


class AdminRequests:
    """Requests over the connections of a cluster, which the caller closes."""

    def __init__(self, cluster: Cluster, timeout_ms: int = 30_000) -> None:
        self.cluster = cluster
        self.timeout_ms = timeout_ms

    async def ask(self, api_key: ApiKey, build: BodyBuilder, resource: ConfigOwner | None = None) -> Any:
        """Send a request to any node, or to the broker of a resource; retry while there is no controller.

        If a node closes the connection before it answers, another one is asked, as in Kafka's client. A request that
        changes something may then be executed twice, and the second answer says so.
        """
        deadline_ms = self.cluster.runtime.clock.monotonic_ms() + self.timeout_ms
        backoff = self.cluster.backoff()
        while True:
            connection = await self._connection_for(resource)
            pause_ms = backoff.next_ms()
            late = self.cluster.runtime.clock.monotonic_ms() + pause_ms > deadline_ms
            try:
                response = await connection.request(api_key, build, self.timeout_ms)
                if late or not any(code in _RETRIED_CODES for code in _codes(response)):
                    return response
            except RequestTimeoutError:
                raise
            except ClientNetworkError:
                if late:
                    raise
            await asyncio.sleep(pause_ms / 1000)

    async def _connection_for(self, resource: ConfigOwner | None) -> Connection:
        about_broker = resource and resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        if resource and about_broker and resource.name:
            return await self.cluster.connection(int(resource.name))
        return await self.cluster.any_connection()


def check(answer: Any, what: str) -> None:
    """Raise OperationError if an answer or a part of one has an error code."""
    if answer.error_code is not ErrorCode.none:
        message = getattr(answer, "error_message", None) or answer.error_code.name
        raise OperationError(answer.error_code, f"{what}: {message}" if what else message)


def _codes(answer: Any) -> Iterator[ErrorCode]:
    if hasattr(answer, "error_code"):
        yield answer.error_code
    for name in _NESTED:
        parts = getattr(answer, name, ())
        for part in parts if isinstance(parts, tuple) else ():
            yield from _codes(part)
