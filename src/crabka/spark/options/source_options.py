"""The options of the source as one checked value: Spark's own for Kafka, under their names, and those of the tier.

Pure: no broker and no store is asked. `plan` resolves what the options mean for a topic. Kafka's client properties are
checked here too: some are refused, others decide about isolation and security.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from crabka.clients.security.settings import SecuritySettings
from crabka.errors import ConfigError
from crabka.ids import uuid_from_text
from crabka.spark.options import names
from crabka.spark.options.names import ISOLATION_LEVEL, KAFKA_PREFIX, STARTING_OFFSETS, OptionValues
from crabka.spark.options.selection import OffsetLimit, Strategy, parse_limits, parse_strategy
from crabka.spark.options.where import Condition, parse_where

logger = logging.getLogger(__name__)
METADATA_MODES: Final = ("topic", "snapshot", "listing")
READ_MODES: Final = ("auto", "tier", "broker")
CORRUPT_MODES: Final = ("fail", "report")
DEFAULT_MAX_TASKS: Final = 10_000
_DEFAULT_DELAY_MS: Final = 15 * 60_000
_DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
_BOOTSTRAP: Final = "bootstrap.servers"
_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": f"use {STARTING_OFFSETS} to say where to start",
    "key.deserializer": "keys come as bytes; convert them with DataFrame operations",
    "value.deserializer": "values come as bytes; convert them with DataFrame operations",
    "enable.auto.commit": "Spark keeps the offsets of a query in its checkpoint",
    "interceptor.classes": "interceptors could change the records",
}
_READ_COMMITTED: Final = "read_committed"
_LEVELS: Final = ("read_uncommitted", _READ_COMMITTED)
_STORES: Final = (
    ("truststore", "ssl.ca.location"),
    ("keystore", "ssl.certificate.location and ssl.key.location"),
)
_reported: set[str] = set()
"""Options without effect that this process has reported already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read and how. Shows no secrets; goes to executors as it is."""

    strategy: Strategy
    starting: OffsetLimit
    ending: OffsetLimit
    streaming: bool = False
    bootstrap: str | None = None
    # Kafka's client properties and the storage's settings, without prefixes.
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    latest_without_match: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    read_committed: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = _DEFAULT_DELAY_MS
    poll_timeout_ms: int = _DEFAULT_POLL_TIMEOUT_MS
    offset_tries: int = 3
    offset_retry_interval_ms: int = 1_000
    tier_uri: str | None = None
    tier_metadata: str = "topic"
    tier_snapshot: str | None = None
    tier_topic_id: uuid.UUID | None = None
    read_mode: str = "auto"
    where: tuple[Condition, ...] = ()
    max_tasks: int = DEFAULT_MAX_TASKS
    on_corrupt: str = "fail"
    commit_group: str | None = None
    # Where a streaming query keeps what it remembers of batches; None is a place of the driver.
    position_location: str | None = None

    @classmethod
    def parse(cls, mapping: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Return the checked options of a batch or a streaming query. Raises ConfigError."""
        given, client, storage = names.by_canonical_name(mapping)
        check_client_properties(client)
        values = OptionValues(given)
        starting, ending = parse_limits(given, streaming=streaming)
        idle_in_batch = [] if streaming else [f"{name} (in batch)" for name in names.TRIGGER_NAMES if name in given]
        _report_idle(names.without_effect(given, client) + idle_in_batch)
        min_per_trigger, max_per_trigger, trigger_delay_ms = _trigger_limits(values, streaming=streaming)
        _check_cache_time(values)
        options = cls(
            strategy=parse_strategy(given),
            starting=starting,
            ending=ending,
            streaming=streaming,
            bootstrap=client.get(_BOOTSTRAP, "").strip() or None,
            client=client,
            storage=storage,
            latest_without_match=values.choice(names.TIMESTAMP_STRATEGY, ("error", "latest")) == "latest",
            fail_on_data_loss=values.flag(names.FAIL_ON_DATA_LOSS, default=True),
            include_headers=values.flag(names.INCLUDE_HEADERS, default=False),
            read_committed=parse_isolation(given, client),
            min_partitions=values.positive(names.MIN_PARTITIONS, bits=32),
            max_records_per_partition=values.positive(names.MAX_RECORDS_PER_PARTITION),
            max_offsets_per_trigger=max_per_trigger,
            min_offsets_per_trigger=min_per_trigger,
            max_trigger_delay_ms=trigger_delay_ms,
            poll_timeout_ms=values.not_negative(names.POLL_TIMEOUT_MS, _DEFAULT_POLL_TIMEOUT_MS),
            offset_tries=max(values.not_negative(names.NUM_RETRIES, 3, bits=32), 1),
            offset_retry_interval_ms=values.not_negative(names.RETRY_INTERVAL_MS, 1_000),
            tier_uri=values.text(names.TIER_URI),
            tier_metadata=values.choice(names.TIER_METADATA, METADATA_MODES) or "topic",
            tier_snapshot=values.text(names.TIER_SNAPSHOT),
            tier_topic_id=_topic_id(values.text(names.TIER_TOPIC_ID)),
            read_mode=values.choice(names.READ_MODE, READ_MODES) or "auto",
            where=parse_where(given[names.WHERE]) if names.WHERE in given else (),
            max_tasks=values.positive(names.MAX_TASKS) or DEFAULT_MAX_TASKS,
            on_corrupt=values.choice(names.ON_CORRUPT, CORRUPT_MODES) or "fail",
            commit_group=values.text(names.COMMIT_GROUP),
            position_location=values.text(names.POSITION_LOCATION),
        )
        options._check()
        return options

    def _check(self) -> None:
        self._check_places()
        for name, given in ((names.COMMIT_GROUP, self.commit_group), (names.POSITION_LOCATION, self.position_location)):
            if given is not None and not self.streaming:
                raise ConfigError(f"{name} is for streaming queries only")
        if self.where and self.streaming:
            raise ConfigError(f"{names.WHERE} is for batch queries only; filter the rows of a stream in Spark")

    def _check_places(self) -> None:
        """Refuse combinations that leave no place to read from."""
        without_broker = self.tier_metadata != "topic" and self.read_mode != "broker"
        if self.bootstrap is None and not without_broker:
            hint = f"; only {names.TIER_METADATA}=listing or snapshot can do without"
            raise ConfigError(f"{names.KAFKA_PREFIX}{_BOOTSTRAP} must be given{hint}")
        if self.tier_metadata == "snapshot" and self.tier_snapshot is None:
            raise ConfigError(f"{names.TIER_METADATA}=snapshot needs {names.TIER_SNAPSHOT}, the exported file")
        if self.tier_metadata != "topic" and self.tier_uri is None:
            raise ConfigError(f"{names.TIER_METADATA}={self.tier_metadata} needs {names.TIER_URI}")
        if self.commit_group is not None and self.bootstrap is None:
            raise ConfigError(f"{names.COMMIT_GROUP} needs {names.KAFKA_PREFIX}{_BOOTSTRAP}")


def _trigger_limits(values: OptionValues, *, streaming: bool) -> tuple[int | None, int | None, int]:
    """Return the fewest and the most offsets of a trigger and how long it may wait.

    In a batch query they have no effect. As in Spark's source they are not even looked at there, unless there are both
    a lower and an upper limit.
    """
    lowest, highest = names.MIN_OFFSETS_PER_TRIGGER, names.MAX_OFFSETS_PER_TRIGGER
    if not streaming and not (lowest in values and highest in values):
        return None, None, _DEFAULT_DELAY_MS
    read = values.positive if streaming else values.number
    low, high = read(lowest), read(highest)
    if low is not None and high is not None and low > high:
        raise ConfigError(f"{lowest} ({low}) is higher than {highest} ({high})")
    if not streaming:
        return None, None, _DEFAULT_DELAY_MS
    return low, high, values.duration_ms(names.MAX_TRIGGER_DELAY, _DEFAULT_DELAY_MS)


def _topic_id(text: str | None) -> uuid.UUID | None:
    if text is None:
        return None
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise ConfigError(f"{names.TIER_TOPIC_ID}: {error}") from None


def _check_cache_time(values: OptionValues) -> None:
    ttl_ms = values.number(names.METADATA_CACHE_TTL_MS)
    if ttl_ms is not None and ttl_ms != -1 and ttl_ms <= 0:
        raise ConfigError(f"{names.METADATA_CACHE_TTL_MS} is a positive number of milliseconds, or -1")


def _report_idle(idle: list[str]) -> None:
    """Log options without effect, each once in the life of the process."""
    new = [name for name in idle if name not in _reported]
    _reported.update(new)
    if new:
        logger.info("accepted without effect: %s", ", ".join(new))


def check_client_properties(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for what a query may not set, and for security that cannot be had."""
    for name, instead in _REFUSED.items():
        if name in properties:
            raise ConfigError(f"{KAFKA_PREFIX}{name} is not supported: {instead}")
    if properties.get("security.protocol", "").upper().endswith("SSL"):
        _refuse_java_stores(properties)
    try:
        SecuritySettings.from_properties(properties)
    except ConfigError as error:
        raise ConfigError(f"{KAFKA_PREFIX}{error}") from None


def parse_isolation(options: Mapping[str, str], properties: Mapping[str, str]) -> bool:
    """Return whether only committed records are read. Raises ConfigError for two that differ."""
    names = {
        KAFKA_PREFIX + ISOLATION_LEVEL: properties.get(ISOLATION_LEVEL),
        ISOLATION_LEVEL: options.get(ISOLATION_LEVEL),
    }
    given = {name: value.strip().lower() for name, value in names.items() if value is not None}
    for name, level in given.items():
        if level not in _LEVELS:
            raise ConfigError(f"{name} is one of {', '.join(_LEVELS)}, not {level}")
    if len(set(given.values())) > 1:
        raise ConfigError(f"{' and '.join(given)} differ; give only one of them")
    return _READ_COMMITTED in given.values()


def _refuse_java_stores(properties: Mapping[str, str]) -> None:
    for store, instead in _STORES:
        kind = properties.get(f"ssl.{store}.type", "JKS").strip().upper()
        if kind == "PEM" or not properties.get(f"ssl.{store}.location", "").strip():
            continue
        raise ConfigError(
            f"{KAFKA_PREFIX}ssl.{store}.location is a {kind} store, which only Java reads; convert it by `keytool "
            f"-importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12` and `openssl pkcs12 "
            f"-in store.p12 -out store.pem`, then set {KAFKA_PREFIX}ssl.{store}.type to PEM, or use {instead}"
        )
