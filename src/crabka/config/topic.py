"""Settings of a topic, as Kafka's LogConfig declares them.

`TopicConfig` is what a log is opened with: all values parsed, defaults filled in. Which layer a value came from is
the business of `resolve`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabka.config.keys import (
    DOUBLE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigKey,
    Value,
    boolean,
    index_keys,
    invalid,
)
from crabka.config.validators import (
    GZIP_LEVEL,
    LZ4_LEVEL,
    THROTTLED_REPLICAS,
    ZSTD_LEVEL,
    Between,
    ListOf,
    OneOf,
    at_least,
)
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_MS = 24 * 3600 * 1000
# A local retention that is the total one.
AS_TOTAL = -2
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = ("compact", "delete")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
MIN_SEGMENT_BYTES = 1024 * 1024
# What the cluster itself keeps is never tiered, whatever its settings say (Kafka's UnifiedLog.isRemoteLogEnabled).
UNTIERED_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)

_CLEANING = (
    ConfigKey(
        "cleanup.policy",
        LIST,
        ("delete",),
        "`delete` removes old segments, `compact` keeps the last value of each key; both may be given.",
        ListOf(CLEANUP_POLICIES),
    ),
    ConfigKey(
        "delete.retention.ms",
        LONG,
        _DAY_MS,
        "How long cleaned tombstones stay, so that slow readers still see the deletion.",
        at_least(0),
    ),
    ConfigKey(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The longest time that a record of a compacted topic may wait for the cleaner.",
        at_least(1),
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        LONG,
        0,
        "The shortest time that a record stays uncompacted.",
        at_least(0),
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "The share of uncleaned bytes from which a compacted log is cleaned.",
        Between(0, 1),
    ),
)

_COMPRESSION = (
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "The codec that batches are stored with; `producer` keeps them as they came.",
        OneOf(COMPRESSION_TYPES),
    ),
    ConfigKey("compression.gzip.level", INT, -1, "The gzip level when `compression.type` is gzip.", GZIP_LEVEL),
    ConfigKey("compression.lz4.level", INT, 9, "The lz4 level when `compression.type` is lz4.", LZ4_LEVEL),
    ConfigKey("compression.zstd.level", INT, 3, "The zstd level when `compression.type` is zstd.", ZSTD_LEVEL),
)

_SEGMENTS = (
    ConfigKey(
        "segment.bytes",
        INT,
        1 << 30,
        "The size at which a segment is closed and the next one begun.",
        at_least(MIN_SEGMENT_BYTES),
    ),
    ConfigKey(
        "segment.ms", LONG, 7 * _DAY_MS, "The age at which a segment is closed even if it is not full.", at_least(1)
    ),
    ConfigKey(
        "segment.jitter.ms",
        LONG,
        0,
        "A random part taken off `segment.ms`, so that many partitions do not roll at once.",
        at_least(0),
    ),
    ConfigKey(
        "segment.index.bytes",
        INT,
        10 * 1024 * 1024,
        "The largest size of an index file; a segment is closed when its index is full.",
        at_least(4),
    ),
    ConfigKey(
        "index.interval.bytes", INT, 4096, "About how many log bytes lie between two index entries.", at_least(0)
    ),
    boolean(
        "preallocate",
        "Whether Kafka reserves a segment's disk space when it is created.",
        default=False,
        effect="none",
    ),
    ConfigKey(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "How long files wait on disk under a `.deleted` name before they are removed.",
        at_least(0),
    ),
    ConfigKey(
        "flush.messages",
        LONG,
        LONG_MAX,
        "Call fsync after this many records; by default the system decides when data reaches the disk.",
        at_least(1),
    ),
    ConfigKey("flush.ms", LONG, LONG_MAX, "Call fsync after this time.", at_least(0)),
    ConfigKey(
        "internal.segment.bytes",
        INT,
        None,
        "For tests: a segment size below the limit of `segment.bytes`.",
        internal=True,
    ),
)

_RETENTION = (
    ConfigKey(
        "retention.ms",
        LONG,
        7 * _DAY_MS,
        "The age at which segments are removed; -1 keeps them for ever.",
        at_least(-1),
    ),
    ConfigKey(
        "retention.bytes",
        LONG,
        -1,
        "The partition size above which the oldest segments are removed; -1 sets no limit.",
    ),
    ConfigKey(
        "local.retention.ms",
        LONG,
        -2,
        "The age at which tiered segments leave the local disk; -2 means as `retention.ms`.",
        at_least(AS_TOTAL),
    ),
    ConfigKey(
        "local.retention.bytes",
        LONG,
        -2,
        "The local size above which tiered segments leave the disk; -2 means as `retention.bytes`.",
        at_least(AS_TOTAL),
    ),
    boolean("remote.storage.enable", "Whether closed segments are copied to the remote tier.", default=False),
    boolean(
        "remote.log.copy.disable",
        "Stops copying new segments to the tier; what is there stays readable.",
        default=False,
    ),
    boolean(
        "remote.log.delete.on.disable",
        "Whether turning the tier off removes the remote data.",
        default=False,
    ),
)

_MESSAGES = (
    ConfigKey(
        "max.message.bytes",
        INT,
        1024 * 1024 + 12,
        "The largest batch, after compression, that the topic takes.",
        at_least(0),
    ),
    ConfigKey(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether records keep the producer's time or get the broker's.",
        OneOf(TIMESTAMP_TYPES),
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie in the past.",
        at_least(0),
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        LONG,
        3600 * 1000,
        "How far a producer's timestamp may lie in the future.",
        at_least(0),
    ),
)

_REPLICATION = (
    ConfigKey(
        "min.insync.replicas",
        INT,
        1,
        "How many replicas must be in sync for a write with acks=all to be taken.",
        at_least(1),
    ),
    boolean(
        "unclean.leader.election.enable",
        "Whether an out-of-sync replica may lead when no other is left; records may be lost.",
        default=False,
    ),
    ConfigKey(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Follower replicas whose fetching is throttled, as partition:broker pairs, or `*`.",
        THROTTLED_REPLICAS,
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Leader replicas whose sending is throttled, as partition:broker pairs, or `*`.",
        THROTTLED_REPLICAS,
    ),
)

TOPIC_KEYS: Mapping[str, ConfigKey] = index_keys(
    _CLEANING, _COMPRESSION, _SEGMENTS, _RETENTION, _MESSAGES, _REPLICATION
)
"""All topic settings by name."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings that a log runs with; without arguments, Kafka's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    internal_segment_bytes: int | None = None
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = 3600 * 1000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str], defaults: TopicConfig | None = None) -> TopicConfig:
        """Return the defaults with a topic's own settings put over them.

        Raises ConfigError, in Kafka's words, for an unknown name, a bad value or two values that contradict.
        """
        parsed = parse_topic_overrides(overrides)
        config = replace(defaults or cls(), **topic_fields(parsed))
        check_consistency(config)
        return config

    @property
    def effective_segment_bytes(self) -> int:
        """The size at which a segment rolls: the internal setting wins over the public one."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def effective_segment_index_bytes(self) -> int:
        """The largest index file; a 32-bit position cannot address more."""
        return min(self.segment_index_bytes, INT_MAX)

    @property
    def effective_segment_ms(self) -> int:
        """The time after which a segment rolls: only sealed segments are cleaned, and that must not come too late."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def effective_local_retention_ms(self) -> int:
        """The age at which segments leave the local disk; -1 keeps them there."""
        return self.retention_ms if self._local_is_all(self.local_retention_ms) else self.local_retention_ms

    @property
    def effective_local_retention_bytes(self) -> int:
        """The local size above which segments leave the disk; -1 sets no limit."""
        return self.retention_bytes if self._local_is_all(self.local_retention_bytes) else self.local_retention_bytes

    def _local_is_all(self, limit: int) -> bool:
        return limit == AS_TOTAL or not self.remote_storage_enable or self.remote_log_copy_disable

    @property
    def compact(self) -> bool:
        """True if the cleaner works on the topic."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """True if retention by time and size works on the topic."""
        return "delete" in self.cleanup_policy


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Parse a topic's own settings by name. Raises ConfigError in Kafka's words."""
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        parsed[name] = key.parse(text)
    return parsed


def check_consistency(config: TopicConfig) -> None:
    """Raise ConfigError when settings that are fine alone contradict each other."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )


def check_remote_storage(
    config: TopicConfig, *, system_enabled: bool, topic: str = "", was_enabled: bool = False
) -> None:
    """Raise ConfigError when a topic asks for the remote tier, or leaves it, in a way that cannot work.

    The rules and their order are Kafka's (KIP-405, KIP-950); that the cluster's own topics are refused, instead of
    left alone without a word, is not.
    """
    if not config.remote_storage_enable:
        if was_enabled and not config.remote_log_delete_on_disable:
            raise ConfigError(
                "It is invalid to disable remote storage without deleting remote data. "
                "If you want to keep the remote data and turn to read only, please set "
                "`remote.storage.enable=true,remote.log.copy.disable=true`. "
                "If you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if not system_enabled:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if config.compact:
        raise ConfigError(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    if topic in UNTIERED_TOPICS:
        raise ConfigError(f"Remote log storage is not supported for the internal topic {topic}.")
    limits = (
        ("bytes", config.retention_bytes, config.local_retention_bytes),
        ("ms", config.retention_ms, config.local_retention_ms),
    )
    for unit, total, local in limits:
        check_local_retention(f"local.retention.{unit}", local, f"retention.{unit}", total)
    for unit, total, local in limits:
        if config.remote_log_copy_disable and local not in (AS_TOTAL, total):
            raise ConfigError(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                f"`retention.{unit}` must be set to the identical value because there will be no more logs "
                "copied to the remote storage."
            )


def check_local_retention(local_name: str, local: int, total_name: str, total: int) -> None:
    """Raise ConfigError when a local limit is larger than the total one, of which it is a part (KIP-405)."""
    if total < 0 or local == AS_TOTAL:
        return
    if local == -1:
        raise invalid(local_name, local, f"Value must not be -1 as {total_name} value is set as {total}.")
    if local > total:
        raise invalid(local_name, local, f"Value must not be more than {total_name} property value: {total}")


def field_name(key_name: str) -> str:
    """Return the dataclass field of a key: dots become underscores."""
    return key_name.replace(".", "_")


def topic_fields(parsed: Mapping[str, Value]) -> dict[str, Any]:
    """Return parsed topic settings as fields of TopicConfig."""
    result: dict[str, Any] = {field_name(name): value for name, value in parsed.items()}
    if "cleanup_policy" in result:
        result["cleanup_policy"] = frozenset(result["cleanup_policy"])
    return result
