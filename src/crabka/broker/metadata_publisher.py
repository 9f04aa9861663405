"""Makes the node do what the metadata says: opens, creates, reconfigures and deletes logs, takes leadership.

It is called with every change in order, on the node's loop, before whoever caused the change is answered. A
topic is therefore usable when CreateTopics returns.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.partition import Partition
from crabka.errors import StorageError
from crabka.ids import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, TopicPartition
from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.partitions import PartitionRegistry
    from crabka.config.topic import TopicConfig
    from crabka.ids import TopicId
    from crabka.log.log_manager import LogManager
    from crabka.metadata.delta import MetadataDelta
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage

log = logging.getLogger(__name__)

# LOST is no such state: it says that the replica was in a dir that is gone.
_NOT_A_DIRECTORY = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)


class MetadataPublisher:
    """Applies metadata to the logs and partitions of one node."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        partitions: PartitionRegistry,
        *,
        topic_config: Callable[[MetadataImage, str], TopicConfig],
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._partitions = partitions
        self._topic_config = topic_config

    def publish_all(self, image: MetadataImage) -> None:
        """Take over a whole image, at start."""
        for topic in image.topics.by_id.values():
            self._host_topic(image, topic)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over a change."""
        for topic_id in delta.topics_deleted:
            self._delete_topic(delta.image.topics.by_id[topic_id])
        for topic_id in self._present(delta.topics_created | delta.topics_changed, image):
            self._host_topic(image, image.topics.by_id[topic_id])
        self._reconfigure(delta, image)

    @staticmethod
    def _present(topic_ids: Iterable[TopicId], image: MetadataImage) -> list[TopicId]:
        return [topic_id for topic_id in topic_ids if topic_id in image.topics.by_id]

    def _host_topic(self, image: MetadataImage, topic: TopicImage) -> None:
        hosted = self._partitions.of_topic(topic.name)
        for index, partition_image in topic.partitions.items():
            if self._node_id not in partition_image.replicas:
                continue
            partition = hosted.get(index) or self._open(image, topic, index, partition_image)
            if partition is not None:
                partition.become(partition_image, node_id=self._node_id)

    def _open(
        self, image: MetadataImage, topic: TopicImage, index: int, partition_image: PartitionImage
    ) -> Partition | None:
        topic_partition = TopicPartition(topic.name, index)
        opened = self._logs.get(topic_partition)
        if opened is None:
            if self._partitions.is_offline(topic.topic_id, index) or self._is_lost(partition_image):
                # The replica lies in a dir that is not there: an empty new log would pass for its data.
                self._partitions.add_offline(topic.name, topic.topic_id, index)
                return None
            config = self._topic_config(image, topic.name)
            log_dir = self._assigned_dir(partition_image)
            try:
                opened = self._logs.create(topic_partition, topic.topic_id, config, log_dir)
            except StorageError as error:
                self._logs.on_dir_failure(error.log_dir, error)
                self._partitions.add_offline(topic.name, topic.topic_id, index)
                return None
        partition = Partition(topic.name, index, topic.topic_id, opened, self._logs.writer(opened.log_dir))
        self._partitions.add(partition)
        return partition

    def _is_lost(self, partition_image: PartitionImage) -> bool:
        directory = partition_image.directory_of(self._node_id)
        return directory not in _NOT_A_DIRECTORY and directory not in self._logs.online_directory_ids

    def _assigned_dir(self, partition_image: PartitionImage) -> str | None:
        directory = partition_image.directory_of(self._node_id)
        return next((path for path in self._logs.online_dirs if self._logs.directory_id(path) == directory), None)

    def _delete_topic(self, topic: TopicImage) -> None:
        for partition in list(self._partitions.of_topic(topic.name).values()):
            self._partitions.remove(partition)
            partition.retire()
            self._logs.delete(TopicPartition(partition.topic, partition.index))
        self._partitions.forget_offline(topic.name, topic.topic_id)

    def _reconfigure(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topics: dict[str, None] = {}
        for resource_type, name in delta.configs_changed:
            if resource_type == ConfigResourceType.TOPIC:
                topics[name] = None
            elif resource_type == ConfigResourceType.BROKER and name in ("", str(self._node_id)):
                topics.update((partition.topic, None) for partition in self._partitions)
        for topic in topics:
            config = self._topic_config(image, topic)
            for partition in self._partitions.of_topic(topic).values():
                partition.log.update_config(config)
