"""How a node makes itself known in the metadata when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.brokers import (
    Registration,
    keep_directories,
    register_broker,
    register_controller,
    unfence_broker,
)
from crabka.controller.partitions import assign_directories
from crabka.metadata.cluster import Endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.metadata_writer import MetadataWriter
    from crabka.broker.partition import Partition
    from crabka.broker.partitions import PartitionRegistry
    from crabka.config.server import ServerConfig
    from crabka.ids import DirectoryId
    from crabka.log.log_manager import LogManager
    from crabka.ports import Runtime
    from crabka.quorum.standalone import StandaloneQuorum

_PLAINTEXT = 0


class NodeRegistrar:
    """Registers one node as controller and broker, then lets it serve."""

    def __init__(
        self, config: ServerConfig, runtime: Runtime, quorum: StandaloneQuorum, writer: MetadataWriter
    ) -> None:
        self._config = config
        self._quorum = quorum
        self._writer = writer
        self._controller_incarnation = runtime.new_uuid()
        self._broker_incarnation = runtime.new_uuid()

    async def register(self, endpoints: Sequence[Endpoint], log_dirs: Sequence[DirectoryId]) -> int:
        """Write the registrations; return the broker epoch. Partitions of this node have no leader afterwards."""
        config = self._config
        controller = Registration(
            config.node_id,
            self._controller_incarnation,
            [Endpoint(each.name, each.host, each.port, _PLAINTEXT) for each in config.controller_listeners],
            log_dirs,
        )
        await self._writer.submit(lambda image: register_controller(image, controller))
        broker = Registration(config.node_id, self._broker_incarnation, endpoints, log_dirs, config.broker_rack)
        return await self._writer.submit(
            # The offset is taken in the same turn of the loop in which the records are appended.
            lambda image: register_broker(image, broker, broker_epoch=self._quorum.next_offset)
        )

    async def unfence(self) -> None:
        """Take leadership of this node's partitions and let clients see it."""
        await self._writer.submit(lambda image: unfence_broker(image, self._config.node_id))


async def tell_directories(
    writer: MetadataWriter, node_id: int, logs: LogManager, partitions: PartitionRegistry
) -> None:
    """Record in which log dir each partition lies, where the metadata does not know it yet (KIP-858)."""
    await _assign(writer, node_id, logs, list(partitions))


async def tell_failed_directories(
    writer: MetadataWriter, node_id: int, logs: LogManager, lost: Sequence[Partition] = ()
) -> None:
    """Record which log dirs of the node still work; partitions in the others lose their leader (KIP-858).

    `lost` lay in a dir that just failed. The metadata may not know that yet, and must not take them for new ones.
    """
    await _assign(writer, node_id, logs, lost)
    await writer.submit(lambda image: keep_directories(image, node_id, logs.online_directory_ids))


async def _assign(writer: MetadataWriter, node_id: int, logs: LogManager, partitions: Sequence[Partition]) -> None:
    placements = [
        (partition.topic_id, partition.index, directory)
        for partition in partitions
        if (directory := logs.directory_id(partition.log.log_dir)) is not None
    ]
    await writer.submit(lambda image: assign_directories(image, node_id, placements))
