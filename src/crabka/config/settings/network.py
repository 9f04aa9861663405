"""Sockets, requests and connections of a node."""

from __future__ import annotations

from crabka.config.keys import CLUSTER_WIDE, INT, INT_MAX, LIST, LONG, PER_BROKER, STRING, ConfigKey
from crabka.config.validators import ListOf, OneOf, at_least

NETWORK_KEYS = (
    ConfigKey(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "Where the node listens: name://host:port, separated by commas; an empty host means all addresses.",
        ListOf(may_be_empty=False),
        scope=PER_BROKER,
    ),
    ConfigKey(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients connect to, if they differ from `listeners`.",
        ListOf(may_be_empty=False),
    ),
    ConfigKey(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name stands for.",
        scope=PER_BROKER,
    ),
    ConfigKey("inter.broker.listener.name", STRING, None, "The listener that brokers use among themselves."),
    ConfigKey(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol between brokers where `inter.broker.listener.name` is not set.",
        OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ),
    ConfigKey(
        "socket.request.max.bytes",
        INT,
        104_857_600,
        "The largest request; a longer one closes the connection.",
        at_least(1),
    ),
    ConfigKey("connections.max.idle.ms", LONG, 600_000, "Connections without traffic for this time are closed."),
    ConfigKey(
        "max.connections",
        INT,
        INT_MAX,
        "The largest number of open connections of the node.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes that unfinished requests and large ones without a response may hold, over all connections; above it"
        " reading waits. -1 stands for 256 MiB, or socket.request.max.bytes if that is more; in Kafka for no limit.",
    ),
    ConfigKey("quota.window.num", INT, 11, "Windows over which client quotas are measured.", at_least(1)),
    ConfigKey(
        "quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which client quotas are measured.",
        at_least(1),
    ),
    ConfigKey(
        "controller.quota.window.num", INT, 11, "Windows over which quotas on topic changes are measured.", at_least(1)
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which quotas on topic changes are measured.",
        at_least(1),
    ),
    ConfigKey("request.timeout.ms", INT, 30_000, "How long the node waits for an answer of another node."),
    ConfigKey("fetch.max.bytes", INT, 57_671_680, "The most bytes that one fetch answer holds.", at_least(1_024)),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1_000,
        "How many incremental fetch sessions are remembered (KIP-227).",
        at_least(0),
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        INT,
        2_000,
        "The most partitions that one DescribeTopicPartitions answer holds.",
        at_least(1),
    ),
)
