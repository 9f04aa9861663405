"""FindCoordinator (10): which node coordinates a group or a transactional id.

The topic that keeps them is made when it is first asked for. From version 4 one request may ask for many keys. There
are no share groups: their coordinators cannot be found.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.cluster_view import broker_endpoints, leader_of
from crabka.broker.controller_link.auto_create import create_missing_topics
from crabka.broker.groups.shard import OFFSETS_TOPIC
from crabka.broker.transactions.shard import TRANSACTIONS_TOPIC
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode, error_message

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.coordinator import GroupCoordinator
    from crabka.broker.transactions.coordinator import TransactionCoordinator
    from crabka.serving.request import Request

logger = logging.getLogger(__name__)

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE = 6


class _Found(NamedTuple):
    error_code: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Name the leader of the partition that keeps each group."""
    types = response_types(request.api_key, request.version)
    body = request.body
    key_type = getattr(body, "key_type", GROUP)
    if request.version < FIRST_VERSION_WITH_MANY_KEYS:
        found = await _find(context, request, key_type, body.key)
        text = "NONE" if found.error_code is ErrorCode.none else error_message(found.error_code)
        return types.message(throttle_time=0, error_message=text, **found._asdict())
    rows = []
    for key in body.coordinator_keys:
        found = await _find(context, request, key_type, key)
        text = "" if found.error_code is ErrorCode.none else error_message(found.error_code)
        rows.append(types.new("Coordinator", key=key, error_message=text, **found._asdict()))
    return types.message(throttle_time=0, coordinators=rows)


async def _find(context: BrokerContext, request: Request, key_type: int, key: str) -> _Found:
    if key_type == SHARE and request.version < FIRST_VERSION_WITH_SHARE:
        return _Found(ErrorCode.invalid_request)
    if key_type == SHARE:
        return _Found(ErrorCode.coordinator_not_available)
    if key_type not in (GROUP, TRANSACTION):
        return _Found(ErrorCode.invalid_request)
    coordinator = context.groups if key_type == GROUP else context.transactions
    topic = OFFSETS_TOPIC if key_type == GROUP else TRANSACTIONS_TOPIC
    if topic not in context.image.topics.by_name:
        errors = await create_missing_topics(context, [topic])
        if errors:
            if errors[topic] is not ErrorCode.unknown_topic_or_partition:
                # It will not come by itself.
                _log_once(context, coordinator, errors[topic])
            return _Found(ErrorCode.coordinator_not_available)
    image = context.image
    partition = image.topics.by_name[topic].partitions.get(coordinator.partition_of(key))
    leader = leader_of(image, partition) if partition is not None else -1
    for broker in broker_endpoints(image, request.connection.listener):
        if broker.node_id == leader:
            return _Found(ErrorCode.none, broker.node_id, broker.host, broker.port)
    return _Found(ErrorCode.coordinator_not_available)


def _log_once(
    context: BrokerContext, coordinator: GroupCoordinator | TransactionCoordinator, error_code: ErrorCode
) -> None:
    if coordinator.logged_missing_topic:
        return
    coordinator.logged_missing_topic = True
    if coordinator is context.groups:
        topic, count, what = OFFSETS_TOPIC, context.config.offsets_topic_replication_factor, "group"
        setting = "offsets.topic.replication.factor"
    else:
        topic, count, what = (
            TRANSACTIONS_TOPIC,
            context.config.transaction_state_log_replication_factor,
            "transactional id",
        )
        setting = "transaction.state.log.replication.factor"
    logger.warning(
        "Cannot create %s with %d replicas (%s): no %s can be used; %s must not exceed the number of brokers",
        topic,
        count,
        error_code.name,
        what,
        setting,
    )
