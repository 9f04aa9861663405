"""The names of the source's options: Spark hands them over in lower case, messages print them as they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from crabka.clients.security_settings import is_idle
from crabka.errors import ConfigError

KAFKA_PREFIX: Final = "kafka."
STORAGE_PREFIX: Final = "tier.config."

ASSIGN: Final = "assign"
SUBSCRIBE: Final = "subscribe"
SUBSCRIBE_PATTERN: Final = "subscribePattern"
STRATEGIES: Final = (ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN)

STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
STARTING_OFFSETS_BY_TIMESTAMP: Final = "startingOffsetsByTimestamp"
ENDING_OFFSETS_BY_TIMESTAMP: Final = "endingOffsetsByTimestamp"
STARTING_TIMESTAMP: Final = "startingTimestamp"
ENDING_TIMESTAMP: Final = "endingTimestamp"
TIMESTAMP_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"
INCLUDE_HEADERS: Final = "includeHeaders"
MIN_PARTITIONS: Final = "minPartitions"
MAX_RECORDS_PER_PARTITION: Final = "maxRecordsPerPartition"
MAX_OFFSETS_PER_TRIGGER: Final = "maxOffsetsPerTrigger"
MIN_OFFSETS_PER_TRIGGER: Final = "minOffsetsPerTrigger"
MAX_TRIGGER_DELAY: Final = "maxTriggerDelay"
POLL_TIMEOUT_MS: Final = "kafkaConsumer.pollTimeoutMs"
NUM_RETRIES: Final = "fetchOffset.numRetries"
RETRY_INTERVAL_MS: Final = "fetchOffset.retryIntervalMs"
GROUP_ID_PREFIX: Final = "groupIdPrefix"
METADATA_CACHE_TTL_MS: Final = "partition.metadata.cache.ttl.ms"
SINK_TOPIC: Final = "topic"

ISOLATION_LEVEL: Final = "isolation.level"
TIER_URI: Final = "tier.uri"
TIER_METADATA: Final = "tier.metadata"
TIER_SNAPSHOT: Final = "tier.snapshot"
TIER_TOPIC_ID: Final = "tier.topicId"
READ_MODE: Final = "read.mode"
WHERE: Final = "where"
MAX_TASKS: Final = "maxTasks"
ON_CORRUPT: Final = "onCorrupt"
COMMIT_GROUP: Final = "commitGroup"
POSITION_LOCATION: Final = "positionLocation"

STOCK_NAMES: Final = (
    *STRATEGIES,
    *(STARTING_OFFSETS, ENDING_OFFSETS, STARTING_OFFSETS_BY_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP),
    *(STARTING_TIMESTAMP, ENDING_TIMESTAMP, TIMESTAMP_STRATEGY, FAIL_ON_DATA_LOSS, INCLUDE_HEADERS),
    *(MIN_PARTITIONS, MAX_RECORDS_PER_PARTITION, MAX_OFFSETS_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER),
    *(MAX_TRIGGER_DELAY, POLL_TIMEOUT_MS, NUM_RETRIES, RETRY_INTERVAL_MS, GROUP_ID_PREFIX),
    *(METADATA_CACHE_TTL_MS, SINK_TOPIC),
)
"""Those of Spark's own Kafka source."""

OWN_NAMES: Final = (
    *(ISOLATION_LEVEL, TIER_URI, TIER_METADATA, TIER_SNAPSHOT, TIER_TOPIC_ID),
    *(READ_MODE, WHERE, MAX_TASKS, ON_CORRUPT, COMMIT_GROUP, POSITION_LOCATION),
)
"""Those that only this source has."""

CANONICAL: Final[Mapping[str, str]] = {name.lower(): name for name in (*STOCK_NAMES, *OWN_NAMES)}

WITHOUT_EFFECT: Final = frozenset({SINK_TOPIC, GROUP_ID_PREFIX, METADATA_CACHE_TTL_MS})
"""Options of Spark's source that are accepted and change nothing here."""

TRIGGER_NAMES: Final = (MAX_OFFSETS_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER, MAX_TRIGGER_DELAY)
"""Options that change nothing in batch queries."""

EFFECTIVE_CLIENT_NAMES: Final = frozenset(
    {"bootstrap.servers", "isolation.level", "client.id", "request.timeout.ms", "security.protocol"}
)
EFFECTIVE_CLIENT_FAMILIES: Final = ("sasl.", "ssl.")


def by_canonical_name(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the source's own options, Kafka's client properties and the storage's settings, without prefixes.

    Raises ConfigError for an option that is not known; it names the nearest one.
    """
    options: dict[str, str] = {}
    client: dict[str, str] = {}
    storage: dict[str, str] = {}
    for key, value in given.items():
        lowered = key.lower()
        if lowered in CANONICAL:
            options[CANONICAL[lowered]] = value
        elif lowered.startswith(KAFKA_PREFIX):
            client[lowered.removeprefix(KAFKA_PREFIX)] = value
        elif lowered.startswith(STORAGE_PREFIX):
            storage[lowered.removeprefix(STORAGE_PREFIX)] = value
        else:
            raise ConfigError(f"{key} is no option of the source{_hint(lowered)}")
    return options, client, storage


def without_effect(options: Iterable[str], client: Iterable[str]) -> list[str]:
    """Return which of the given options are accepted but change nothing."""
    idle = [name for name in options if name in WITHOUT_EFFECT]
    idle += [
        KAFKA_PREFIX + name
        for name in client
        if name not in EFFECTIVE_CLIENT_NAMES and (not name.startswith(EFFECTIVE_CLIENT_FAMILIES) or is_idle(name))
    ]
    return sorted(idle)


def _hint(lowered: str) -> str:
    candidates = dict(CANONICAL) | {f"{KAFKA_PREFIX}{name}": f"{KAFKA_PREFIX}{name}" for name in EFFECTIVE_CLIENT_NAMES}
    nearest = get_close_matches(lowered, candidates, 1, cutoff=0.5)
    return f"; did you mean {candidates[nearest[0]]}?" if nearest else ""
