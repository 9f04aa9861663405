"""Starts a manager by settings: retries until the metadata topic can be used.

Until then the node serves local data, and reads of remote metadata raise NotReadyError.
"""

from __future__ import annotations

import asyncio
import logging

from crabka.clients.cluster.backoff import Backoff
from crabka.errors import CrabkaError
from crabka.ports import Runtime
from crabka.remote_topic.event_fetcher import OnFailure
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLog, KafkaMetadataEventLogConfig
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager

MAX_PAUSE_MS = 10_000

logger = logging.getLogger(__name__)


async def start_topic_based_manager(
    runtime: Runtime,
    config: KafkaMetadataEventLogConfig,
    directory: str,
    *,
    on_failure: OnFailure | None = None,
) -> TopicBasedRemoteLogMetadataManager:
    """Return a running manager of this loop, as soon as the metadata topic can be used; the caller stops it."""
    event_log = await _open_event_log(runtime, config, on_failure)
    manager = TopicBasedRemoteLogMetadataManager(runtime, event_log, directory, config.topic, on_failure=on_failure)
    await manager.start()
    return manager


async def _open_event_log(
    runtime: Runtime, config: KafkaMetadataEventLogConfig, on_failure: OnFailure | None
) -> KafkaMetadataEventLog:
    settings = config.topic
    backoff = Backoff(runtime.rng, max(1, settings.initialization_retry_interval_ms), MAX_PAUSE_MS)
    started_ms = runtime.clock.monotonic_ms()
    while True:
        try:
            return await KafkaMetadataEventLog.open(runtime, config, on_failure)
        except CrabkaError as error:
            waited_ms = runtime.clock.monotonic_ms() - started_ms
            level = logging.ERROR if waited_ms > settings.initialization_retry_max_timeout_ms else logging.INFO
            logger.log(level, "the metadata topic cannot be used yet, after %d ms: %s", waited_ms, error)
        await asyncio.sleep(backoff.next_ms() / 1000)
