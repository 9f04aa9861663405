"""Checks across several settings of a node, as Kafka's KafkaConfig does at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from crabka.config.topic import check_local_retention
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig

_MIN_DEDUPE_BYTES_PER_THREAD = 1024 * 1024


def check_server(config: ServerConfig) -> None:
    """Raise ConfigError when settings that are fine alone contradict each other."""
    _check_roles(config)
    _check_logs(config)
    _check_replication(config)
    _check_groups(config)
    _check_network(config)
    _check_tiering(config)


def _need(condition: object, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _number(config: ServerConfig, key: str) -> int:
    return cast("int", config.values[key])


def _check_roles(config: ServerConfig) -> None:
    names = ", ".join(config.controller_listener_names)
    if config.is_controller:
        _need(config.controller_listeners, f"a controller needs a listener of controller.listener.names ({names})")
    else:
        _need(not config.controller_listeners, f"a node that is only a broker cannot listen on {names}")
    if config.is_broker:
        _need(config.broker_listeners, "a broker needs a listener that is not in controller.listener.names")
        _need(
            config.broker_heartbeat_interval_ms * 2 <= config.broker_session_timeout_ms,
            "broker.heartbeat.interval.ms must be at most half of broker.session.timeout.ms",
        )
    _need(
        config.controller_quorum_voters or config.controller_quorum_bootstrap_servers,
        "one of controller.quorum.bootstrap.servers and controller.quorum.voters must name the controllers",
    )


def _check_logs(config: ServerConfig) -> None:
    threads = config.log_cleaner_threads
    _need(
        config.log_cleaner_dedupe_buffer_size >= _MIN_DEDUPE_BYTES_PER_THREAD * max(threads, 1),
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    _need(
        config.log_cleaner_min_compaction_lag_ms <= config.log_cleaner_max_compaction_lag_ms,
        "log.cleaner.min.compaction.lag.ms must not be more than log.cleaner.max.compaction.lag.ms",
    )


def _check_replication(config: ServerConfig) -> None:
    _need(
        config.replica_fetch_wait_max_ms <= config.replica_socket_timeout_ms,
        "replica.socket.timeout.ms must be at least replica.fetch.wait.max.ms",
    )
    _need(
        config.replica_fetch_wait_max_ms <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms must not be more than replica.lag.time.max.ms",
    )
    _need(config.offsets_topic_compression_codec in range(5), "offsets.topic.compression.codec must be 0 to 4")


def _check_groups(config: ServerConfig) -> None:
    for unit in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        key = f"group.consumer.{unit}"
        low, value, high = (
            _number(config, name) for name in (f"group.consumer.min.{unit}", key, f"group.consumer.max.{unit}")
        )
        _need(low <= value <= high, f"{key} is {value}, its own limits allow {low} to {high}")
    _need(
        config.group_consumer_heartbeat_interval_ms < config.group_consumer_session_timeout_ms,
        "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
    )


def _check_network(config: ServerConfig) -> None:
    limit = config.queued_max_request_bytes
    _need(
        limit <= 0 or limit >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be at least socket.request.max.bytes",
    )
    if config.max_connections_per_ip == 0:
        _need(
            config.max_connections_per_ip_overrides,
            "max.connections.per.ip can be set to zero only if there are overrides in max.connections.per.ip.overrides",
        )


def _check_tiering(config: ServerConfig) -> None:
    if config.remote_log_storage_system_enable:
        _need(
            config.remote_log_storage_manager_class_name,
            "remote.log.storage.system.enable needs remote.log.storage.manager.class.name",
        )
        check_broker_local_retention(config)


def check_broker_local_retention(config: ServerConfig) -> None:
    """Raise ConfigError when the defaults of topics keep more on the local disk than in total."""
    check_local_retention(
        "log.local.retention.bytes", config.log_local_retention_bytes, "log.retention.bytes", config.log_retention_bytes
    )
    check_local_retention(
        "log.local.retention.ms", config.log_local_retention_ms, "log.retention.ms", config.log_retention_ms
    )
