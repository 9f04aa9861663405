"""The effective settings of a resource: the metadata's dynamic configs over the node's own file."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from crabka.config.resolve import (
    BrokerLayers,
    ConfigEntry,
    describe_broker_loggers,
    describe_client_metrics_configs,
)
from crabka.config.server import topic_default_values
from crabka.config.topic import TOPIC_KEYS, TopicConfig, parse_topic_overrides, topic_fields
from crabka.errors import ConfigError, OperationError
from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.topic_names import require_legal_topic_name
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.log_levels import logger_levels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.config.server import ServerConfig
    from crabka.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

CLUSTER_DEFAULT = ""


class ConfigScope(Protocol):
    """The node whose settings are described, a broker or a controller."""

    @property
    def static_config(self) -> ServerConfig:
        """Settings of the node's file."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""

    @property
    def node_id(self) -> int:
        """The node's id."""


def broker_layers(server: ServerConfig, image: MetadataImage) -> BrokerLayers:
    """Return the node's settings in layers; `server` holds those of its file."""
    return BrokerLayers(
        server,
        image.configs.get(ConfigResourceType.BROKER, str(server.node_id)),
        image.configs.get(ConfigResourceType.BROKER, CLUSTER_DEFAULT),
    )


class EffectiveConfigs:
    """The effective settings of the node and its topics. Parsed again only when the node's dynamic settings change."""

    def __init__(self, server: ServerConfig) -> None:
        self._static = server
        self._dynamic: tuple[dict[str, str], dict[str, str]] | None = None
        self._server = server
        self._topic_defaults: dict[str, Any] = {}

    def server(self, image: MetadataImage) -> ServerConfig:
        """Return the node's settings with the dynamic ones over them."""
        layers = broker_layers(self._static, image)
        dynamic = (dict(layers.dynamic_broker), dict(layers.dynamic_default))
        if dynamic != self._dynamic:
            self._dynamic = dynamic
            try:
                self._server = layers.effective
            except ConfigError as error:
                # Each was checked alone. As in Kafka, a contradiction between them does not stop the node.
                logger.warning("Invalid dynamic settings are ignored, the last valid ones stay in force: %s", error)
            self._topic_defaults = topic_default_values(self._server)
        return self._server

    def topic(self, image: MetadataImage, name: str) -> TopicConfig:
        """Return the effective settings of a topic."""
        self.server(image)
        stored = image.configs.get(ConfigResourceType.TOPIC, name)
        # An older release may have stored settings that no longer exist.
        overrides = {key: value for key, value in stored.items() if key in TOPIC_KEYS}
        return TopicConfig(**topic_fields({**self._topic_defaults, **parse_topic_overrides(overrides)}))


def topic_entries(context: ConfigScope, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Describe the settings of a topic with these overrides."""
    return broker_layers(context.static_config, context.image).describe_topic(overrides)


def describe_resource(context: ConfigScope, resource_type: int, name: str) -> list[ConfigEntry]:
    """Describe any resource. Raises OperationError with Kafka's code if there is no such resource."""
    image = context.image
    layers = broker_layers(context.static_config, image)
    match resource_type:
        case ConfigResourceType.TOPIC:
            require_legal_topic_name(name)
            if name not in image.topics.by_name:
                raise OperationError(ErrorCode.unknown_topic_or_partition)
            return layers.describe_topic(image.configs.get(resource_type, name))
        case ConfigResourceType.BROKER:
            if name == CLUSTER_DEFAULT:
                return layers.describe_cluster_default()
            _require_own_id(context, name)
            return layers.describe_broker()
        case ConfigResourceType.BROKER_LOGGER:
            _require_own_id(context, name)
            return describe_broker_loggers(logger_levels())
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise OperationError(ErrorCode.invalid_request, "Client metrics subscription name must not be empty")
            return describe_client_metrics_configs(image.configs.get(resource_type, name))
        case ConfigResourceType.GROUP:
            if not name:
                raise OperationError(ErrorCode.invalid_request, "Group name must not be empty")
            return layers.describe_group(image.configs.get(resource_type, name))
        case _:
            raise OperationError(ErrorCode.invalid_request, f"Unsupported resource type: {resource_type}")


def _require_own_id(context: ConfigScope, name: str) -> None:
    if not name.removeprefix("-").isdecimal():
        raise OperationError(ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}")
    if int(name) != context.node_id:
        raise OperationError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.node_id} or empty string, but received {name}",
        )
