"""How administrative requests reach somebody who can answer them: what all parts of `Admin` share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from crabka._kio import ErrorCode
from crabka.clients.admin_types import ConfigOwner, ResourceType
from crabka.clients.cluster import Cluster
from crabka.clients.connection import BodyBuilder, Connection
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey

# Codes that pass: there is no active controller now, or the one that was asked has just stopped being it.
_RETRIED_CODES: Final = frozenset(
    {ErrorCode.not_controller, ErrorCode.not_leader_or_follower, ErrorCode.coordinator_load_in_progress}
)
_NESTED: Final = ("topics", "responses", "results", "partitions")


class AdminRequests:
    """Requests over a cluster's connections; closing the cluster is the caller's matter."""

    def __init__(self, cluster: Cluster, timeout_ms: int = 30_000) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms

    async def _ask(self, api_key: ApiKey, build: BodyBuilder, resource: ConfigOwner | None = None) -> Any:
        """Ask some node, or the one that a resource is about; try again while there is no controller.

        A node that goes away before it answers is followed by another one, as in Kafka's client: a request that
        changes something may then be carried out twice, which its second answer tells.
        """
        deadline_ms = self._cluster.runtime.clock.monotonic_ms() + self._timeout_ms
        backoff = self._cluster.backoff()
        while True:
            connection = await self._connection_for(resource)
            pause_ms = backoff.next_ms()
            late = self._cluster.runtime.clock.monotonic_ms() + pause_ms > deadline_ms
            try:
                response = await connection.request(api_key, build, self._timeout_ms)
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
            return await self._cluster.connection(int(resource.name))
        return await self._cluster.any_connection()


def check(answer: Any, what: str) -> None:
    """Raise OperationError if an answer or a part of one carries an error."""
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
