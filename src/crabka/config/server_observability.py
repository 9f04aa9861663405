"""Metrics, quotas and telemetry."""

from __future__ import annotations

from crabka.config.keys import CLASS, CLUSTER_WIDE, INT, LIST, LONG, STRING, ConfigKey
from crabka.config.validators import ListOf, at_least

OBSERVABILITY_KEYS = (
    ConfigKey(
        "metric.reporters",
        LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Java classes that get Kafka's metrics; Crabka serves Prometheus instead.",
        ListOf(),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey("metrics.num.samples", INT, 2, "Samples over which Kafka computes rates.", at_least(1), effect="none"),
    ConfigKey("metrics.recording.level", STRING, "INFO", "How detailed Kafka's metrics are.", effect="none"),
    ConfigKey(
        "metrics.sample.window.ms",
        LONG,
        30_000,
        "The length of a sample over which Kafka computes rates.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "kafka.metrics.polling.interval.secs",
        INT,
        10,
        "How often Kafka's own reporters are called.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "kafka.metrics.reporters", LIST, (), "Java classes that get Kafka's older metrics.", ListOf(), effect="none"
    ),
    ConfigKey(
        "client.quota.callback.class",
        CLASS,
        None,
        "A Java class that computes quotas; Crabka cannot run one.",
        effect="none",
    ),
    ConfigKey(
        "quota.window.num", INT, 11, "Windows over which client quotas are measured.", at_least(1), effect="none"
    ),
    ConfigKey(
        "quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which client quotas are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "replication.quota.window.num",
        INT,
        11,
        "Windows over which replication quotas are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "replication.quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which replication quotas are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        "Windows over which moves between directories are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which moves between directories are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "controller.quota.window.num",
        INT,
        11,
        "Windows over which quotas on topic changes are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which quotas on topic changes are measured.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "telemetry.max.bytes", INT, 1_048_576, "The largest telemetry push of a client.", at_least(1), effect="none"
    ),
)
