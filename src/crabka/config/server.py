"""Settings of a node: a properties file becomes one frozen object.

`ServerConfig.from_properties` parses and checks everything that a Kafka user may write. What Crabka cannot honour
without a loss of safety (security, foreign Java classes) is refused; what is merely unknown is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from crabka.config.java_classes import assignor_name, check_java_class
from crabka.config.keys import REQUIRED, Value
from crabka.config.listener_settings import check_listener_values, listener_key_warning, plain_name
from crabka.config.listeners import ListenerAddress
from crabka.config.settings import checks as server_checks
from crabka.config.settings.derived import derived_fields
from crabka.config.settings.security import AUTHORIZER_KEYS, asks_for_security
from crabka.config.settings.table import SERVER_KEYS, unknown_key_warning
from crabka.config.topic import TopicConfig, field_name, topic_fields
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, repr=False)
class ServerConfig:
    """The settings of a node. A field is named as its key, with underscores for dots; unread keys have none."""

    # Settings that follow from several keys, or that are parsed further.
    node_id: int
    process_roles: frozenset[str]
    listeners: tuple[ListenerAddress, ...]
    advertised_listeners: tuple[ListenerAddress, ...]
    """The addresses for clients; never a controller listener. Port 0 stands for the port that was bound."""
    inter_broker_listener_name: str
    security_protocols: Mapping[str, str]
    """The security protocol of each listener name, of listeners of other nodes as well."""
    max_connections_per_ip_overrides: Mapping[str, int]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    cordoned_log_dirs: tuple[str, ...]
    """Some of `log_dirs`; a `*` is written out."""
    log_retention_ms: int
    """-1 keeps records for ever; `log.retention.minutes` and `log.retention.hours` are folded in."""
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_flush_interval_ms: int
    values: Mapping[str, Value]
    """Every known key, parsed, also those that have no field."""
    static: Mapping[str, str]
    """The properties as they were given, unknown ones included."""
    given: Mapping[str, str]
    """The same with dynamic settings over them, of the node and of single listeners."""
    insecure_ignore_security: bool = False

    # Node and metadata quorum.
    broker_rack: str | None
    controller_listener_names: tuple[str, ...]
    controller_quorum_voters: tuple[str, ...]
    controller_quorum_bootstrap_servers: tuple[str, ...]
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_socket_timeout_ms: int
    metadata_log_segment_bytes: int
    internal_metadata_log_segment_bytes: int | None
    metadata_log_segment_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    controlled_shutdown_enable: bool

    # Network.
    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    request_timeout_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int

    # Logs.
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
    log_segment_bytes: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_local_retention_ms: int
    log_local_retention_bytes: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_dir_failure_timeout_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    producer_id_expiration_ms: int

    # Replication.
    default_replication_factor: int
    num_replica_fetchers: int
    num_replica_alter_log_dirs_threads: int | None
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_interval_ms: int
    follower_fetch_last_tiered_offset_enable: bool

    # Consumer groups.
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_assignment_interval_ms: int
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

    # Transactions.
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_state_log_load_buffer_size: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int

    # Tiered storage.
    remote_log_storage_system_enable: bool
    remote_log_storage_manager_class_name: str | None
    remote_log_storage_manager_impl_prefix: str
    remote_log_metadata_manager_impl_prefix: str
    remote_log_metadata_manager_listener_name: str | None
    remote_log_metadata_custom_metadata_max_bytes: int
    remote_log_manager_task_interval_ms: int
    remote_log_manager_task_retry_backoff_ms: int
    remote_log_manager_task_retry_backoff_max_ms: int
    remote_log_manager_task_retry_jitter: float
    remote_log_manager_copier_thread_pool_size: int
    remote_log_manager_expiration_thread_pool_size: int
    remote_log_manager_copy_max_bytes_per_second: int
    remote_log_manager_copy_quota_window_num: int
    remote_log_manager_copy_quota_window_size_seconds: int
    remote_log_manager_fetch_max_bytes_per_second: int
    remote_log_manager_fetch_quota_window_num: int
    remote_log_manager_fetch_quota_window_size_seconds: int
    remote_log_reader_threads: int
    remote_log_reader_max_pending_tasks: int
    remote_log_index_file_cache_total_size_bytes: int
    remote_log_index_file_cache_ttl_ms: int
    remote_fetch_max_wait_ms: int
    remote_list_offsets_request_timeout_ms: int

    # Security.
    authorizer_class_name: str

    # Only in Crabka.
    crabka_validate_records: bool
    crabka_slow_append_ms: int
    crabka_fast_failure_detection_enable: bool
    crabka_remote_leftover_grace_ms: int
    crabka_remote_chunk_cache_bytes: int
    crabka_remote_verified_ttl_ms: int
    crabka_log_scrub_enable: bool
    crabka_log_scrub_interval_ms: int
    crabka_log_scrub_max_bytes_per_second: int
    crabka_log_scrub_max_cpu_percent: int
    crabka_log_scrub_now: str
    crabka_http_listener: str | None

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, insecure_ignore_security: bool = False
    ) -> tuple[ServerConfig, list[str]]:
        """Parse the properties of a node; return the settings and warnings for its operator.

        Raises ConfigError, one line, for a bad, missing or contradictory value and for security settings unless
        they are to be ignored.
        """
        warnings: list[str] = []
        for name, text in properties.items():
            if asks_for_security(name, text):
                warnings.append(_refuse_security(f"{name} is set", ignore=insecure_ignore_security))
        config = cls._build(properties, {}, insecure_ignore_security=insecure_ignore_security)
        warnings += _listener_warnings(config, ignore=insecure_ignore_security)
        warnings += _unknown_warnings(config)
        return config, warnings

    @classmethod
    def _build(
        cls, static: Mapping[str, str], dynamic: Mapping[str, str], *, insecure_ignore_security: bool
    ) -> ServerConfig:
        given = {**with_aliases(static), **dynamic}
        values = _parse_values(given)
        check_listener_values(given)
        own: dict[str, Any] = {**_plain_fields(values), **derived_fields(values, given), "given": given}
        config = cls(**own, values=values, static=dict(static), insecure_ignore_security=insecure_ignore_security)
        server_checks.check_server(config)
        return config

    def with_dynamic(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str] | None = None
    ) -> ServerConfig:
        """Return the settings with dynamic ones over the static ones; a broker's own win over the cluster's.

        Keys that cannot change at run time or that are not known are left out. Raises ConfigError.
        """
        merged = {**cluster_wide, **(per_broker or {})}
        known = {name: text for name, text in merged.items() if _is_dynamic(name)}
        return self._build(self.static, known, insecure_ignore_security=self.insecure_ignore_security)

    @property
    def is_broker(self) -> bool:
        """True if the node serves clients."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """True if the node takes part in the metadata quorum."""
        return "controller" in self.process_roles

    @property
    def broker_listeners(self) -> tuple[ListenerAddress, ...]:
        """The listeners that are not the controllers' own."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[ListenerAddress, ...]:
        """The listeners that controllers use."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)

    def value(self, name: str) -> Value:
        """Return the parsed value of any known key. Raises KeyError."""
        return self.values[name]

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return the properties below a prefix, without it: the settings of a plug-in."""
        return {name.removeprefix(prefix): text for name, text in self.static.items() if name.startswith(prefix)}


def with_aliases(properties: Mapping[str, str]) -> dict[str, str]:
    """Fill in `node.id` from `broker.id` and the other way round, as Kafka does before parsing."""
    result = dict(properties)
    if "broker.id" in result and "node.id" not in result:
        result["node.id"] = result["broker.id"]
    elif "node.id" in result and "broker.id" not in result:
        result["broker.id"] = result["node.id"]
    return result


def _is_dynamic(name: str) -> bool:
    key = SERVER_KEYS.get(plain_name(name))
    return key is not None and key.dynamic


def _parse_values(properties: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, key in SERVER_KEYS.items():
        text = properties.get(name)
        if text is None:
            if key.default is REQUIRED:
                raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
            values[name] = key.default_value
        else:
            values[name] = key.parse(text)
            check_java_class(name, values[name])
    return values


def _plain_fields(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the values that become fields as they are."""
    names = {field.name for field in fields(ServerConfig)}
    plain: dict[str, Any] = {field_name(name): value for name, value in values.items() if field_name(name) in names}
    plain["controller_listener_names"] = tuple(name.upper() for name in plain["controller_listener_names"])
    plain["group_consumer_assignors"] = tuple(assignor_name(name) for name in plain["group_consumer_assignors"])
    plain["group_consumer_migration_policy"] = plain["group_consumer_migration_policy"].lower()
    return plain


def _refuse_security(what: str, *, ignore: bool) -> str:
    if not ignore:
        raise ConfigError(
            f"{what}, which Crabka does not serve yet: remove it, or run without by --insecure-ignore-security"
        )
    return f"{what} and is ignored: every client may do everything"


def _listener_warnings(config: ServerConfig, *, ignore: bool) -> list[str]:
    return [
        _refuse_security(f"listener {listener.name} asks for {listener.security_protocol}", ignore=ignore)
        for listener in config.listeners
        if listener.security_protocol != "PLAINTEXT" and ignore
    ]


def _unknown_warnings(config: ServerConfig) -> list[str]:
    prefixes = (config.remote_log_storage_manager_impl_prefix, config.remote_log_metadata_manager_impl_prefix)
    unknown = (
        name for name, text in config.static.items() if name not in SERVER_KEYS and not asks_for_security(name, text)
    )
    warnings = []
    for name in unknown:
        of_authorizer = _authorizer_warning(name, config)
        warnings.append(unknown_key_warning(name, prefixes) if of_authorizer is None else of_authorizer)
        warnings.append(listener_key_warning(name, config.security_protocols))
    return [warning for warning in warnings if warning]


def _authorizer_warning(name: str, config: ServerConfig) -> str | None:
    """Return the warning for a setting of the authorizer: empty where there is one; None for any other setting."""
    if name not in AUTHORIZER_KEYS:
        return None
    return "" if config.authorizer_class_name else f"{name} has no effect without authorizer.class.name"


TOPIC_SYNONYMS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The broker setting that gives the default of a topic setting."""

_FOLDED = {
    "flush.ms": "log_flush_interval_ms",
    "retention.ms": "log_retention_ms",
    "segment.jitter.ms": "log_roll_jitter_ms",
    "segment.ms": "log_roll_ms",
}


def topic_default_values(server: ServerConfig) -> dict[str, Value]:
    """Return the defaults of topic settings that the node's own settings give, by topic setting."""
    values = {topic: server.values[broker] for topic, broker in TOPIC_SYNONYMS.items()}
    return {**values, **{topic: getattr(server, field) for topic, field in _FOLDED.items()}}


def topic_defaults(server: ServerConfig) -> TopicConfig:
    """Return the settings of a topic that sets nothing itself."""
    return TopicConfig(**topic_fields(topic_default_values(server)))
