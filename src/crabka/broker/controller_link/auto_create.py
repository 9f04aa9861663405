"""Topics that are created because a client requested them (`auto.create.topics.enable`).

The controller makes them. A client sees a topic once this broker knows it from the metadata; until then it gets
a retriable error.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import CrabkaError
from crabka.metadata.requests import WantedTopic
from crabka.metadata.topic_names import is_legal_topic_name
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.context import BrokerContext
    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.config.server import ServerConfig
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Spawn
    from crabka.protocol.apis import MessageTypes

logger = logging.getLogger(__name__)

# A client that waited for so long gets a retriable error.
MAX_WAIT_MS: Final = 1_000
_CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)


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
            return WantedTopic(name, config.num_partitions, config.default_replication_factor)


async def create_missing_topics(context: BrokerContext, names: Iterable[str]) -> dict[str, ErrorCode]:
    """Create topics with default settings; return the errors of those that cannot be used yet.

    A topic that another client created meanwhile is no error.
    """
    return await context.auto_creation.create(names)


class AutoTopicCreation:
    """Asks the controller for topics, for each of them once at a time, and waits a little until they are here."""

    def __init__(
        self,
        controller: ControllerRequests,
        *,
        image: Callable[[], MetadataImage],
        config: Callable[[], ServerConfig],
        spawn: Spawn,
    ) -> None:
        self._controller = controller
        self._image = image
        self._config = config
        self._spawn = spawn
        # Topics with the request that is to create them.
        self._in_flight: dict[str, asyncio.Future[dict[str, ErrorCode]]] = {}
        self._waiting: dict[asyncio.Future[None], None] = {}

    def on_metadata(self, delta: MetadataChanges, _image: MetadataImage) -> None:
        """Look again for topics that requests wait for. To be called after the partitions followed the change."""
        if delta.topics_created:
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    async def create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Create topics; return why some cannot be used yet.

        UNKNOWN_TOPIC_OR_PARTITION stands for a topic that may come: the controller has not answered, or this broker
        has not heard of the topic. Names that are not legal are left out.
        """
        wanted = [name for name in dict.fromkeys(names) if is_legal_topic_name(name)]
        requests = self._request_once([name for name in wanted if name not in self._image().topics.by_name])
        errors: dict[str, ErrorCode] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT_MS / 1000):
                for request in requests:
                    errors.update(await asyncio.shield(request))
                await self._wait_until_known([name for name in wanted if name not in errors])
        known = self._image().topics.by_name
        return {name: errors.get(name, ErrorCode.unknown_topic_or_partition) for name in wanted if name not in known}

    def _request_once(self, names: list[str]) -> list[asyncio.Future[dict[str, ErrorCode]]]:
        """Return the requests for these topics; those without a request share a new one."""
        new = [name for name in names if name not in self._in_flight]
        if new:
            self._in_flight.update(dict.fromkeys(new, self._spawn(self._request(new))))
        return list({id(self._in_flight[name]): self._in_flight[name] for name in names}.values())

    async def _request(self, names: list[str]) -> dict[str, ErrorCode]:
        config = self._config()
        wanted = [wanted_topic(config, name) for name in names]
        try:
            answer = await self._controller.request(
                ApiKey.CREATE_TOPICS, lambda types: _create_request(types, wanted, config.request_timeout_ms)
            )
        except CrabkaError as error:
            logger.warning("Cannot create %s: %s", ", ".join(names), error)
            return dict.fromkeys(names, ErrorCode.unknown_topic_or_partition)
        finally:
            for name in names:
                del self._in_flight[name]
        return {row.name: row.error_code for row in answer.topics if row.error_code not in _CREATED}

    async def _wait_until_known(self, names: list[str]) -> None:
        while any(name not in self._image().topics.by_name for name in names):
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[change] = None
            try:
                await change
            finally:
                # Who gives up leaves nothing here until the next topic is created.
                self._waiting.pop(change, None)


def _create_request(types: MessageTypes, wanted: Iterable[WantedTopic], timeout_ms: int) -> Any:
    topics = [
        types.new(
            "CreatableTopic",
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=topic.replication_factor,
            assignments=(),
            configs=[
                types.new("CreatableTopicConfig", name=name, value=value) for name, value in topic.configs.items()
            ],
        )
        for topic in wanted
    ]
    return types.message(topics=topics, timeout=timeout_ms, validate_only=False)
