"""Names and values of the source's options.

Spark passes names in lower case; messages show them in their documented spelling. Every error names the option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from crabka.clients.security.settings import is_idle
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
"""Names of Spark's own Kafka source."""
OWN_NAMES: Final = (
    *(ISOLATION_LEVEL, TIER_URI, TIER_METADATA, TIER_SNAPSHOT, TIER_TOPIC_ID),
    *(READ_MODE, WHERE, MAX_TASKS, ON_CORRUPT, COMMIT_GROUP, POSITION_LOCATION),
)
"""Names that only this source has."""
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

    Raises ConfigError for an unknown option, with the nearest known one.
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
            raise ConfigError(f"{key} is not an option of the source{_hint(lowered)}")
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


_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DURATION: Final = re.compile(r"(-?[0-9]+)([a-z]*)")
_UNIT_US: Final = {
    "": 1_000,
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_MAX_LONG: Final = 2**63 - 1


class OptionValues:
    """Reads values by canonical name. Methods raise ConfigError that says which option is wrong and what is right."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """Return a text without blanks around it; None if it is not given or empty."""
        return self._given_text(name) or None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false, in any case of letters."""
        value = self._given_text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} is true or false, not {_shown_value(value)}")
        return value.lower() == "true"

    def number(self, name: str, *, bits: int = 64) -> int | None:
        """Return a whole number that fits into a number of Java with so many bits."""
        value = self._given_text(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            raise ConfigError(f"{name} is a whole number, not {_shown_value(value)}")
        # More digits than any number of Java has would be refused by int() itself.
        number = int(value) if len(value) < 100 else _MAX_LONG + 1
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ConfigError(f"{name} is a whole number of {bits} bits, and {_shown_value(value)} is too large")
        return number

    def positive(self, name: str, *, bits: int = 64) -> int | None:
        """Return a whole number above zero."""
        value = self.number(name, bits=bits)
        if value is not None and value <= 0:
            raise ConfigError(f"{name} must be positive, it is {value}")
        return value

    def not_negative(self, name: str, default: int, *, bits: int = 64) -> int:
        """Return a whole number that is at least zero."""
        value = self.number(name, bits=bits)
        if value is None:
            return default
        if value < 0:
            raise ConfigError(f"{name} must not be negative, it is {value}")
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return one of some words, in lower case."""
        value = self._given_text(name)
        if value is None:
            return None
        if value.lower() not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {_shown_value(value)}")
        return value.lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return milliseconds of a text such as 15m, 90s or 500, in the words of Spark."""
        value = self._given_text(name)
        if value is None:
            return default_ms
        found = _DURATION.fullmatch(value.lower())
        if found is None or found[2] not in _UNIT_US or len(found[1]) > 20 or abs(int(found[1])) > _MAX_LONG:
            raise ConfigError(f"{name} is a time such as 15m, 90s or 500ms, not {_shown_value(value)}")
        number = int(found[1])
        # Java cuts off towards zero, and takes what is too long for the longest time there is.
        length_ms = min(abs(number) * _UNIT_US[found[2]] // 1_000, _MAX_LONG)
        return length_ms if number >= 0 else -length_ms

    def _given_text(self, name: str) -> str | None:
        """Return a text without blanks around it; an empty one is not the same as none."""
        value = self._given.get(name)
        return None if value is None else value.strip()


def _shown_value(value: str) -> str:
    if not value:
        return "an empty text"
    return value if len(value) <= 100 else f"{value[:100]}…"
