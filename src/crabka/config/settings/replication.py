"""Copies of partitions on several brokers."""

from __future__ import annotations

from crabka.config.keys import CLUSTER_WIDE, INT, LONG, STRING, ConfigKey, boolean
from crabka.config.validators import at_least

REPLICATION_KEYS = (
    ConfigKey("default.replication.factor", INT, 1, "Replicas of a topic created without a count."),
    ConfigKey(
        "num.replica.fetchers",
        INT,
        1,
        "Fetcher threads per source broker in Kafka.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "num.replica.alter.log.dirs.threads",
        INT,
        None,
        "How many partitions are copied to other directories at a time; as many as there are directories by default.",
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up for this long leaves the in-sync set.",
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        INT,
        1_048_576,
        "About how many bytes of one partition a follower fetches at once.",
        at_least(0),
    ),
    ConfigKey("replica.fetch.min.bytes", INT, 1, "The least bytes that a follower's fetch waits for."),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        INT,
        10_485_760,
        "About how many bytes one answer to a follower holds.",
        at_least(0),
    ),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, "How long a follower's fetch waits for data."),
    ConfigKey("replica.fetch.backoff.ms", INT, 1_000, "The pause of a follower after an error.", at_least(0)),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, "How long a follower's request may take."),
    ConfigKey("replica.selector.class", STRING, None, "How a consumer's nearest replica is chosen."),
    boolean(
        "auto.leader.rebalance.enable",
        "Whether leadership moves back to preferred replicas by itself.",
        default=True,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the balance of leaders is checked.",
        at_least(1),
    ),
    ConfigKey(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        "How often partitions without a leader are looked for where unclean election is allowed.",
        at_least(1),
        internal=True,
    ),
    boolean(
        "follower.fetch.last.tiered.offset.enable",
        "Whether a new follower of a tiered topic starts after the data in the tier.",
        default=False,
        scope=CLUSTER_WIDE,
    ),
)
