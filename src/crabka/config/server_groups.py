"""Consumer groups: the classic protocol, KIP-848 and stored offsets."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.config.keys import CLUSTER_WIDE, INT, INT_MAX, LIST, LONG, SHORT, STRING, ConfigKey
from crabka.config.validators import ListOf, OneOf, at_least

GROUPS_KEYS = (
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        "The kinds of groups that are served.",
        ListOf(("consumer", "classic", "share", "streams"), may_be_empty=False),
    ),
    ConfigKey("group.coordinator.threads", INT, 4, "Threads of Kafka's group coordinator.", at_least(1), effect="none"),
    ConfigKey(
        "group.coordinator.background.threads",
        INT,
        2,
        "Threads of Kafka's group coordinator for regular expressions and assignments.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long group records wait to be written together; -1 adapts to the load.",
        at_least(-1),
        effect="none",
    ),
    ConfigKey(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        "The largest buffer that Kafka's group coordinator keeps for reuse.",
        at_least(524_288),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        INT,
        6_000,
        "The shortest session timeout that a classic member may ask for.",
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The longest session timeout that a classic member may ask for.",
    ),
    ConfigKey("group.max.size", INT, INT_MAX, "The most members of a classic group.", at_least(1)),
    ConfigKey(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "Assignors that the broker offers; the first one is the default.",
        ListOf(may_be_empty=False),
    ),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "The heartbeat interval given to members (KIP-848).",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5_000,
        "The smallest heartbeat interval that a group may be given.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The largest heartbeat interval that a group may be given.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "How long a silent member stays in its group (KIP-848).",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The smallest session timeout that a group may be given.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The largest session timeout that a group may be given.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        INT,
        1_000,
        "The least time between two assignments of a group (KIP-848).",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "The smallest assignment interval that a group may be given.",
        at_least(0),
        effect="none",
    ),
    ConfigKey(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "The largest assignment interval that a group may be given.",
        at_least(0),
        effect="none",
    ),
    ConfigKey(
        "group.consumer.max.size",
        INT,
        INT_MAX,
        "The most members of a KIP-848 group.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether groups may move between the classic protocol and KIP-848.",
        OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True),
    ),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often subscribed patterns are matched against the topics.",
        at_least(10_000),
        internal=True,
    ),
    ConfigKey("offsets.topic.num.partitions", INT, 50, "Partitions of `__consumer_offsets`.", at_least(1)),
    ConfigKey("offsets.topic.replication.factor", SHORT, 3, "Replicas of `__consumer_offsets`.", at_least(1)),
    ConfigKey(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "Segment size of `__consumer_offsets`.",
        at_least(1),
    ),
    ConfigKey("offsets.topic.compression.codec", INT, 0, "The codec of `__consumer_offsets`, by number."),
    ConfigKey(
        "offsets.load.buffer.size",
        INT,
        5_242_880,
        "How many bytes are read at once while offsets are loaded.",
        at_least(1),
    ),
    ConfigKey("offsets.commit.timeout.ms", INT, 5_000, "How long a commit waits for the replicas.", at_least(1)),
    ConfigKey(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long the offsets of an empty group are kept.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often expired offsets are looked for.",
        at_least(1),
    ),
    ConfigKey("offset.metadata.max.bytes", INT, 4_096, "The longest text that a commit may carry."),
)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class GroupSettings:
    """Fields of ServerConfig, which alone is built: values of the keys above that Crabka acts on."""

    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_load_buffer_size: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
