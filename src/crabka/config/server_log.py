"""Topics and their logs: the defaults of topic settings, and the upkeep of files."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from crabka.config.keys import (
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PER_BROKER,
    STRING,
    ConfigKey,
    boolean,
)
from crabka.config.topic import CLEANUP_POLICIES, COMPRESSION_TYPES, TIMESTAMP_TYPES
from crabka.config.validators import GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL, Between, ListOf, OneOf, at_least

LOG_KEYS = (
    ConfigKey(
        "log.dirs",
        LIST,
        None,
        "The directories that hold data, separated by commas; `log.dir` counts where this is not set.",
        ListOf(may_be_empty=False),
    ),
    ConfigKey(
        "log.dir",
        LIST,
        ("/tmp/kafka-logs",),  # noqa: S108 - the default that Kafka documents
        "The directory that holds data where `log.dirs` is not set.",
        ListOf(may_be_empty=False),
    ),
    ConfigKey(
        "cordoned.log.dirs",
        LIST,
        (),
        "Directories of `log.dirs` that get no new partitions; `*` stands for all of them.",
        ListOf(),
        scope=PER_BROKER,
    ),
    ConfigKey("num.partitions", INT, 1, "Partitions of a topic created without a count.", at_least(1)),
    boolean(
        "auto.create.topics.enable", "Whether a topic comes into being when a client first asks for it.", default=True
    ),
    boolean("delete.topic.enable", "Whether topics can be deleted.", default=True),
    ConfigKey(
        "create.topic.policy.class.name",
        CLASS,
        None,
        "A Java class that judges new topics; Crabka cannot run one.",
        effect="none",
    ),
    ConfigKey(
        "alter.config.policy.class.name",
        CLASS,
        None,
        "A Java class that judges changed settings; Crabka cannot run one.",
        effect="none",
    ),
    ConfigKey(
        "message.max.bytes",
        INT,
        1_048_588,
        "The default of a topic's `max.message.bytes`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "The default codec of topics.",
        OneOf(COMPRESSION_TYPES),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey("compression.gzip.level", INT, -1, "The default gzip level of topics.", GZIP_LEVEL, scope=CLUSTER_WIDE),
    ConfigKey("compression.lz4.level", INT, 9, "The default lz4 level of topics.", LZ4_LEVEL, scope=CLUSTER_WIDE),
    ConfigKey("compression.zstd.level", INT, 3, "The default zstd level of topics.", ZSTD_LEVEL, scope=CLUSTER_WIDE),
    ConfigKey(
        "min.insync.replicas",
        INT,
        1,
        "The default number of replicas that must be in sync for acks=all.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    boolean(
        "unclean.leader.election.enable",
        "The default of a topic's `unclean.leader.election.enable`.",
        default=False,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "The default of a topic's `cleanup.policy`.",
        ListOf(CLEANUP_POLICIES),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.segment.bytes",
        INT,
        1_073_741_824,
        "The default of a topic's `segment.bytes`.",
        at_least(1_048_576),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.roll.ms",
        LONG,
        None,
        "The default of a topic's `segment.ms`; wins over `log.roll.hours`.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey("log.roll.hours", INT, 168, "As `log.roll.ms`, in hours.", at_least(1)),
    ConfigKey(
        "log.roll.jitter.ms",
        LONG,
        None,
        "The default of a topic's `segment.jitter.ms`; wins over `log.roll.jitter.hours`.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey("log.roll.jitter.hours", INT, 0, "As `log.roll.jitter.ms`, in hours.", at_least(0)),
    ConfigKey(
        "log.retention.ms",
        LONG,
        None,
        "The default of a topic's `retention.ms`; wins over the minutes and the hours.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey("log.retention.minutes", INT, None, "As `log.retention.ms`, in minutes; wins over the hours."),
    ConfigKey("log.retention.hours", INT, 168, "As `log.retention.ms`, in hours."),
    ConfigKey("log.retention.bytes", LONG, -1, "The default of a topic's `retention.bytes`.", scope=CLUSTER_WIDE),
    ConfigKey(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often logs are checked for segments to remove.",
        at_least(1),
    ),
    ConfigKey(
        "log.local.retention.ms",
        LONG,
        -2,
        "The default of a topic's `local.retention.ms`.",
        at_least(-2),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.local.retention.bytes",
        LONG,
        -2,
        "The default of a topic's `local.retention.bytes`.",
        at_least(-2),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.index.size.max.bytes",
        INT,
        10_485_760,
        "The default of a topic's `segment.index.bytes`.",
        at_least(4),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.index.interval.bytes",
        INT,
        4_096,
        "The default of a topic's `index.interval.bytes`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.segment.delete.delay.ms",
        LONG,
        60_000,
        "The default of a topic's `file.delete.delay.ms`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    boolean(
        "log.preallocate", "The default of a topic's `preallocate`.", default=False, scope=CLUSTER_WIDE, effect="none"
    ),
    ConfigKey(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "The default of a topic's `message.timestamp.type`.",
        OneOf(TIMESTAMP_TYPES),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "The default of a topic's `message.timestamp.before.max.ms`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "The default of a topic's `message.timestamp.after.max.ms`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "The default of a topic's `flush.messages`.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.flush.interval.ms",
        LONG,
        None,
        "The default of a topic's `flush.ms`; the scheduler interval counts where this is not set.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey("log.flush.scheduler.interval.ms", LONG, LONG_MAX, "How often logs are checked for records to flush."),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms", INT, 60_000, "How often recovery points are written.", at_least(0)
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often log start offsets are written.",
        at_least(0),
        effect="none",
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        "How long the first round of log upkeep waits after the start.",
        at_least(0),
        internal=True,
        effect="none",
    ),
    ConfigKey(
        "log.dir.failure.timeout.ms",
        LONG,
        30_000,
        "How long a broker waits to tell the controller of a failed directory before it stops.",
        at_least(1),
    ),
    ConfigKey(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "How many logs of a directory are opened at once.",
        at_least(1),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    boolean("log.cleaner.enable", "Whether compacted topics are cleaned.", default=True),
    ConfigKey(
        "log.cleaner.threads",
        INT,
        1,
        "How many logs are cleaned at once.",
        at_least(0),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134_217_728,
        "Memory for the table of keys while cleaning.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        "Kafka's buffer for reading and writing while cleaning.",
        at_least(0),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the table of keys may get.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        sys.float_info.max,
        "The most bytes per second that cleaning reads and writes.",
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long the cleaner rests when there is nothing to clean.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "The default of a topic's `min.cleanable.dirty.ratio`.",
        Between(0, 1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        LONG,
        86_400_000,
        "The default of a topic's `delete.retention.ms`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "The default of a topic's `min.compaction.lag.ms`.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The default of a topic's `max.compaction.lag.ms`.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "How long the state of a silent producer is kept.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "How often silent producers are looked for.",
        at_least(1),
        internal=True,
        effect="none",
    ),
)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LogSettings:
    """Fields of ServerConfig, which alone is built: values of the keys above that Crabka acts on."""

    num_partitions: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    message_max_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    log_cleanup_policy: tuple[str, ...]
    log_segment_bytes: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_local_retention_ms: int
    log_local_retention_bytes: int
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_segment_delete_delay_ms: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    log_flush_interval_messages: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_dir_failure_timeout_ms: int
    num_recovery_threads_per_data_dir: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
