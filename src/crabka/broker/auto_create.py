"""Topics that come into being because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.topic_names import is_legal_topic_name
from crabka.controller.topics import TopicDefaults, WantedTopic, create_topics
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.context import BrokerContext
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


async def create_missing_topics(context: BrokerContext, names: Iterable[str]) -> dict[str, ErrorCode]:
    """Create topics with default settings; return the errors of those that could not be created.

    A topic that somebody else created meanwhile is no error.
    """
    wanted = [WantedTopic(name) for name in dict.fromkeys(names) if is_legal_topic_name(name)]
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
