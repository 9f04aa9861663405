"""Topics that come into being because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.topic_names import is_legal_topic_name
from crabka.controller.topics import TopicDefaults, WantedTopic, create_topics
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.context import BrokerContext
    from crabka.config.server import ServerConfig
    from crabka.controller.outcome import Outcome
    from crabka.controller.topics import TopicCreation
    from crabka.metadata.image import MetadataImage


def topic_defaults(context: BrokerContext) -> TopicDefaults:
    """Return what a topic gets where its creator leaves it open."""
    return TopicDefaults(
        partition_count=context.config.num_partitions,
        replication_factor=context.config.default_replication_factor,
        rng=context.runtime.rng,
        new_topic_id=context.runtime.new_uuid,
    )


def wanted_topic(config: ServerConfig, name: str) -> WantedTopic:
    """Return a topic as it shall be made: internal ones have counts and settings of their own, as in Kafka."""
    match name:
        case "__consumer_offsets":
            return WantedTopic(
                name,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                configs={
                    "compression.type": "producer",
                    "cleanup.policy": "compact",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
        case "__transaction_state":
            return WantedTopic(
                name,
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                configs={
                    "compression.type": "uncompressed",
                    "cleanup.policy": "compact",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            )
        case _:
            return WantedTopic(name)


async def create_missing_topics(context: BrokerContext, names: Iterable[str]) -> dict[str, ErrorCode]:
    """Create topics with default settings; return the errors of those that could not be created.

    A topic that somebody else created meanwhile is no error.
    """
    wanted = [wanted_topic(context.config, name) for name in dict.fromkeys(names) if is_legal_topic_name(name)]
    if not wanted:
        return {}

    def decide(image: MetadataImage) -> Outcome[dict[str, TopicCreation]]:
        return create_topics(image, wanted, topic_defaults(context))

    results = await context.metadata_writer.submit(decide)
    return {
        name: created.verdict.error_code
        for name, created in results.items()
        if created.verdict.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists)
    }
