"""CreateTopics (19): new topics; from version 5 on the answer has their counts and configs (KIP-525)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.topics import TopicDefaults, create_topics
from crabka.metadata.requests import WantedTopic
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.config_view import topic_entries

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.controller.decisions.topics import TopicCreation
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


# From this version on clients know THROTTLING_QUOTA_EXCEEDED.
_FIRST_STRICT_VERSION = 6


async def handle(context: ControllerContext, request: Request) -> Any:
    """Create all valid topics; the answer is sent when they can be used."""
    types = response_types(request.api_key, request.version)
    body = request.body
    wanted = [_new_topic(topic) for topic in body.topics]
    config, runtime = context.config, context.runtime
    defaults = TopicDefaults(
        config.num_partitions, config.default_replication_factor, runtime.rng, runtime.new_uuid, server=config
    )
    budget = context.mutation_quotas.budget(request, strict_from=_FIRST_STRICT_VERSION)
    results = await context.metadata_writer.submit(
        lambda image: create_topics(image, wanted, defaults, validate_only=body.validate_only, charge=budget.charge)
    )
    overrides = {
        topic.name: {name: value for name, value in topic.configs.items() if value is not None} for topic in wanted
    }
    rows = [_row(context, types, name, created, overrides[name]) for name, created in results.items()]
    return types.message(throttle_time=budget.throttle_ms, topics=rows)


def _new_topic(topic: Any) -> WantedTopic:
    return WantedTopic(
        topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, each.broker_ids) for each in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _row(
    context: ControllerContext, types: MessageTypes, name: str, created: TopicCreation, overrides: dict[str, str]
) -> Any:
    verdict = created.verdict
    failed = verdict.error_code is not ErrorCode.none
    configs = (
        None
        if failed
        else [
            types.new(
                "CreatableTopicConfigs",
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(context, overrides)
        ]
    )
    return types.new(
        "CreatableTopicResult",
        name=name,
        topic_id=created.topic_id,
        error_code=verdict.error_code,
        error_message=verdict.message,
        num_partitions=created.partition_count,
        replication_factor=created.replication_factor,
        configs=() if failed else configs,
    )
