"""Where a `Cluster` gets its view from: brokers, or the controllers of the metadata quorum (KIP-919).

Controllers serve administration while brokers are down, and of controllers that no broker knows. They have no metadata
of topics: they return each other and the active controller, which gets all requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from crabka.clients.cluster.metadata import BrokerEndpoint, ClusterView, EndpointType
from crabka.errors import ConfigError, OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.clients.cluster.connection import BodyBuilder
    from crabka.protocol.apis import MessageTypes


class MetadataSource(Protocol):
    """The request for metadata, and the view that follows from its answer."""

    @property
    def endpoint_type(self) -> EndpointType:
        """Return what kind of nodes the bootstrap addresses and the view contain."""

    @property
    def api_key(self) -> ApiKey:
        """Return the API of the request."""

    def request(self, topics: Sequence[str] | None, *, create_topics: bool) -> BodyBuilder:
        """Return the request for some topics (None: all). Raises ConfigError for topics if there are none."""

    def view(self, before: ClusterView, response: Any, *, all_topics: bool) -> ClusterView:
        """Return the view after a response. Raises OperationError."""


class BrokerMetadata:
    """Metadata of brokers and topics."""

    endpoint_type = EndpointType.BROKERS
    api_key = ApiKey.METADATA

    def request(self, topics: Sequence[str] | None, *, create_topics: bool) -> BodyBuilder:
        """Return a Metadata request."""

        def build(types: MessageTypes) -> Any:
            wanted = None
            if topics is not None:
                wanted = [types.new("MetadataRequestTopic", name=name, topic_id=None) for name in topics]
            return types.message(
                topics=wanted,
                allow_auto_topic_creation=create_topics,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )

        return build

    def view(self, before: ClusterView, response: Any, *, all_topics: bool) -> ClusterView:
        """Return the view with the topics of the response."""
        return before.merged(response, all_topics=all_topics)


class ControllerMetadata:
    """The controllers, without topics."""

    endpoint_type = EndpointType.CONTROLLERS
    api_key = ApiKey.DESCRIBE_CLUSTER

    def request(self, topics: Sequence[str] | None, *, create_topics: bool) -> BodyBuilder:  # noqa: ARG002 - no topics
        """Return a DescribeCluster request. Raises ConfigError for topics."""
        if topics is None or topics:
            raise ConfigError("controllers have no metadata of topics: give the address of a broker")

        def build(types: MessageTypes) -> Any:
            return types.message(
                include_cluster_authorized_operations=False,
                endpoint_type=int(EndpointType.CONTROLLERS),
                include_fenced_brokers=False,
            )

        return build

    def view(self, before: ClusterView, response: Any, *, all_topics: bool) -> ClusterView:  # noqa: ARG002 - no topics
        """Return the view of the controllers. Raises OperationError."""
        if response.error_code is not ErrorCode.none:
            message = response.error_message or response.error_code.name
            raise OperationError(response.error_code, f"asking for the controllers: {message}")
        nodes = {int(node.broker_id): BrokerEndpoint(node.broker_id, node.host, node.port) for node in response.brokers}
        return ClusterView(response.cluster_id, response.controller_id, nodes)
