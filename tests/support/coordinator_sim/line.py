"""A client's connection to the node, opened again whenever it broke."""

from __future__ import annotations

from typing import Any

from crabka.clients.cluster.connection import BodyBuilder, Connection, ConnectionSettings
from crabka.protocol.apis import ApiKey
from tests.support.power_loss.machine import NODE_HOST, PORT, Machine

REQUEST_TIMEOUT_MS = 3_000


class Line:
    """One connection at a time."""

    def __init__(self, machine: Machine, client_id: str) -> None:
        self._network = machine.client_runtime.network
        self._settings = ConnectionSettings(
            client_id=client_id, connect_timeout_ms=1_000, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        self._connection: Connection | None = None

    async def ask(
        self, api_key: ApiKey, build: BodyBuilder, *, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and return its answer. Raises CrabkaError if there is none."""
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = self._connection = await Connection.open(self._network, NODE_HOST, PORT, self._settings)
        return await connection.request(api_key, build, timeout_ms, max_version=max_version)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
