"""Sockets, requests and connections of a node."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.config.keys import CLUSTER_WIDE, INT, INT_MAX, LIST, LONG, LONG_MAX, PER_BROKER, STRING, ConfigKey, boolean
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
        "What clients are told to connect to, if it differs from `listeners`.",
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
        effect="none",
    ),
    ConfigKey(
        "early.start.listeners",
        LIST,
        None,
        "Listeners that Kafka opens before its authorizer is ready.",
        ListOf(),
        effect="none",
    ),
    ConfigKey(
        "socket.request.max.bytes",
        INT,
        104_857_600,
        "The largest request; a longer one closes the connection.",
        at_least(1),
    ),
    ConfigKey(
        "socket.send.buffer.bytes",
        INT,
        102_400,
        "SO_SNDBUF of client sockets; -1 leaves it to the system.",
        effect="none",
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        INT,
        102_400,
        "SO_RCVBUF of client sockets; -1 leaves it to the system.",
        effect="none",
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        INT,
        50,
        "How many connections may wait to be accepted.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "How long opening a connection to another node may take at first.",
        effect="none",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "The longest wait for a connection after repeated failures.",
        effect="none",
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
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "The largest number of open connections from one address.",
        at_least(0),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for some addresses, as host:count pairs.",
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "New connections per second of the node.",
        at_least(0),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "queued.max.requests",
        INT,
        500,
        "Requests that may wait before reading from sockets stops.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes that unfinished requests and large ones without a response may hold, over all connections; above it"
        " reading waits. -1 stands for 256 MiB, or socket.request.max.bytes if that is more; in Kafka for no limit.",
    ),
    ConfigKey(
        "num.network.threads",
        INT,
        3,
        "Threads that Kafka gives to sockets; here one event loop serves all.",
        at_least(1),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "num.io.threads",
        INT,
        8,
        "Threads that Kafka gives to requests; here one event loop serves all.",
        at_least(1),
        scope=CLUSTER_WIDE,
        effect="none",
    ),
    ConfigKey(
        "background.threads",
        INT,
        10,
        "Threads that Kafka gives to background work.",
        at_least(1),
        scope=CLUSTER_WIDE,
        effect="none",
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
    ConfigKey(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1_000,
        "How often Kafka sweeps its table of waiting fetches.",
        effect="none",
    ),
    ConfigKey(
        "producer.purgatory.purge.interval.requests",
        INT,
        1_000,
        "How often Kafka sweeps its table of waiting produce requests.",
        effect="none",
    ),
    ConfigKey(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        "How often Kafka sweeps its table of waiting DeleteRecords requests.",
        effect="none",
    ),
    boolean(
        "unstable.api.versions.enable",
        "Whether Kafka offers API versions that are still in development.",
        default=False,
        effect="none",
        internal=True,
    ),
    ConfigKey(
        "server.max.startup.time.ms",
        LONG,
        LONG_MAX,
        "The longest time that Kafka lets its start take.",
        at_least(0),
        effect="none",
        internal=True,
    ),
)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class NetworkSettings:
    """Fields of ServerConfig, which alone is built: values of the keys above that Crabka acts on."""

    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_requests: int
    queued_max_request_bytes: int
    request_timeout_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
