"""The controllers of a cluster, reached directly on their own listener (KIP-919).

For administration while brokers are down, or of controllers that no broker knows. Controllers know no client metadata:
they tell of each other and of who is active, and requests go to the active one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from crabka._kio import ErrorCode
from crabka.clients.cluster import Cluster
from crabka.clients.cluster_types import EndpointType
from crabka.clients.connection import Connection
from crabka.clients.errors import ClientNetworkError
from crabka.clients.metadata import BrokerEndpoint, ClusterView
from crabka.errors import ConfigError, OperationError, WireError
from crabka.protocol.apis import ApiKey, MessageTypes


class ControllerCluster(Cluster):
    """Like `Cluster` for the nodes of the metadata quorum; `any_connection` leads to the active controller."""

    endpoint_type = EndpointType.CONTROLLERS

    async def any_connection(self) -> Connection:
        """Return an open connection to the active controller, to some controller while there is none.

        One that has just died is still called active by the others; whom we ask instead says that it is not, and we
        are asked again. Raises ClientNetworkError when no controller can be reached.
        """
        await self.refresh(())
        if self.view.controller_id in self.view.brokers:
            with contextlib.suppress(ClientNetworkError):
                return await self.connection(self.view.controller_id)
        return await super().any_connection()

    async def refresh(self, topics: Sequence[str] | None) -> ClusterView:
        """Ask a controller who the controllers are. Raises ConfigError for topics, of which they do not tell."""
        if topics is None or topics:
            raise ConfigError("controllers do not tell of topics: give the address of a broker")
        failure: Exception = ClientNetworkError("no controller is known")
        for address in self._addresses():
            try:
                connection = await self._connect(address)
                return self._learn(await connection.request(ApiKey.DESCRIBE_CLUSTER, _describe))
            except (ClientNetworkError, WireError) as error:
                failure = error
        raise failure

    def _learn(self, response: Any) -> ClusterView:
        if response.error_code is not ErrorCode.none:
            message = response.error_message or response.error_code.name
            raise OperationError(response.error_code, f"asking for the controllers: {message}")
        nodes = {int(node.broker_id): BrokerEndpoint(node.broker_id, node.host, node.port) for node in response.brokers}
        self.view = ClusterView(response.cluster_id, response.controller_id, nodes)
        return self.view


def _describe(types: MessageTypes) -> Any:
    return types.message(
        include_cluster_authorized_operations=False,
        endpoint_type=int(EndpointType.CONTROLLERS),
        include_fenced_brokers=False,
    )
