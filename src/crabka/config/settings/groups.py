"""Consumer groups: the classic protocol, KIP-848 and stored offsets."""

from __future__ import annotations

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
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "How long a silent member stays in its group (KIP-848).",
        at_least(1),
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
