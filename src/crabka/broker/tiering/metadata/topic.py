"""The topic-based manager of the tier's metadata in a broker: where its topic is, and which partitions of it it owns.

It talks to the cluster as any client, through the listener of `remote.log.metadata.manager.listener.name` or else the
one between brokers. The leader of a partition of the topic reads it always, whatever this broker hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.clients.security.node_security import broker_security
from crabka.clients.security.security import ClientSecurity
from crabka.config.listeners import format_address
from crabka.errors import ConfigError
from crabka.remote_topic.boot import start_topic_based_manager
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLogConfig
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.config.server import ServerConfig
    from crabka.metadata.cluster import Endpoint
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime
    from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager


class MetadataTopicHost:
    """Starts and stops the manager, and notifies it of the partitions of the topic that this broker leads."""

    def __init__(
        self,
        config: ServerConfig,
        runtime: Runtime,
        *,
        image: Callable[[], MetadataImage],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Raises ConfigError if the settings below `rlmm.config.` are wrong."""
        self._config = config
        self._runtime = runtime
        self._image = image
        self._on_failure = on_failure
        self._settings = RemoteTopicSettings.from_server(config)
        given = self._settings.security
        self._security = (
            broker_security(config, self._listener_name) if given is None else ClientSecurity.from_properties(given)
        )
        self._manager: TopicBasedRemoteLogMetadataManager | None = None
        # The broker's own address, known once its listeners are bound.
        self.endpoints: Sequence[Endpoint] = ()

    async def start(self) -> TopicBasedRemoteLogMetadataManager:
        """Start the manager, which waits for the topic. Raises ConfigError if the listener is none of the broker's."""
        event_log = KafkaMetadataEventLogConfig(
            bootstrap=self._bootstrap(), node_id=self._config.node_id, topic=self._settings, security=self._security
        )
        log_dir = self._config.log_dirs[0]
        manager = await start_topic_based_manager(self._runtime, event_log, log_dir, on_failure=self._on_failure)
        self._manager = manager
        self._notify_own(self._image())
        return manager

    async def stop(self) -> None:
        """Stop the manager if it runs."""
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.stop()

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        """Note which partitions of the topic this broker leads."""
        topic = image.topics.by_name.get(METADATA_TOPIC)
        if topic is not None and topic.topic_id in delta.topics_created | delta.topics_changed:
            self._notify_own(image)

    def _notify_own(self, image: MetadataImage) -> None:
        topic = image.topics.by_name.get(METADATA_TOPIC)
        if topic is not None and self._manager is not None:
            node_id = self._config.node_id
            own = [index for index, partition in topic.partitions.items() if partition.leader == node_id]
            self._manager.set_own_metadata_partitions(own)

    @property
    def _listener_name(self) -> str:
        return self._config.remote_log_metadata_manager_listener_name or self._config.inter_broker_listener_name

    def _bootstrap(self) -> str:
        name = self._listener_name
        for endpoint in self.endpoints:
            if endpoint.name == name:
                return format_address(endpoint.host, endpoint.port)
        raise ConfigError(f"the listener {name}, for the metadata of the remote tier, is none of this broker")
