"""What a topic gets where its creator leaves it open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.topics import TopicDefaults

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.ports import Runtime


def topic_defaults(config: ServerConfig, runtime: Runtime) -> TopicDefaults:
    """Return the defaults of the controller's node, with its chance for placing replicas."""
    return TopicDefaults(
        partition_count=config.num_partitions,
        replication_factor=config.default_replication_factor,
        rng=runtime.rng,
        new_topic_id=runtime.new_uuid,
        server=config,
    )
