"""Changes of settings: IncrementalAlterConfigs (KIP-339) and the older AlterConfigs, checked before they are written.

Everything here is a function of the settings that exist and the operations asked for. The result says which keys
change to what; writing it into the metadata log and putting it into effect is for others.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from crabka._kio import ErrorCode
from crabka.config.client_metrics import CLIENT_METRICS_KEYS, SubscriptionError, parse_client_metrics_overrides
from crabka.config.group import GROUP_KEYS, parse_group_overrides
from crabka.config.keys import LIST, ConfigKey
from crabka.config.server import topic_defaults
from crabka.config.settings.checks import check_broker_local_retention
from crabka.config.settings.security import asks_for_security, is_fixed
from crabka.config.settings.table import DYNAMIC_ONLY_KEYS, SERVER_KEYS
from crabka.config.topic import TOPIC_KEYS, TopicConfig, check_remote_storage
from crabka.errors import ConfigError, OperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crabka.config.server import ServerConfig

MAX_VALUE_BYTES = 32767
ROOT_LOGGER = "root"
LOG_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class AlterableResource(IntEnum):
    """What settings belong to; the numbers are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOp(IntEnum):
    """What is done to a key; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOp(NamedTuple):
    """One operation on one key."""

    name: str
    operation: int
    value: str | None


class AlterContext(NamedTuple):
    """What the checks need to know besides the settings themselves."""

    resource_name: str = ""
    server: ServerConfig | None = None
    """The settings of the node, for limits and defaults; without it only the value itself is checked."""
    elr_enabled: bool = False
    """Whether the cluster keeps eligible leader replicas (KIP-966), which pins min.insync.replicas."""
    loggers: frozenset[str] = frozenset()
    """The names of loggers that exist, for BROKER_LOGGER."""


_KEYS: Mapping[int, Mapping[str, ConfigKey]] = {
    AlterableResource.TOPIC: TOPIC_KEYS,
    AlterableResource.BROKER: {**SERVER_KEYS, **DYNAMIC_ONLY_KEYS},
    AlterableResource.BROKER_LOGGER: {},
    AlterableResource.CLIENT_METRICS: CLIENT_METRICS_KEYS,
    AlterableResource.GROUP: GROUP_KEYS,
}
_NO_CONTEXT = AlterContext()


def apply_ops(
    resource_type: int, existing: Mapping[str, str], ops: Sequence[ConfigOp], context: AlterContext = _NO_CONTEXT
) -> dict[str, str | None]:
    """Return the keys that the operations change, with their new text or None for removed ones.

    Raises OperationError with Kafka's code and message; then nothing of the request may be written.
    """
    if resource_type not in _KEYS:
        raise _refused(f"Unknown resource type {resource_type}")
    check_resource_name(resource_type, context.resource_name)
    _check_shape(ops)
    if resource_type == AlterableResource.BROKER_LOGGER:
        return _alter_loggers(ops, context)
    changes = {op.name: _new_value(resource_type, existing.get(op.name), op) for op in ops}
    _check_result(resource_type, existing, changes, context)
    # A broker reloads what a setting points to (files, certificates) even if the text stays (KAFKA-14136).
    if resource_type == AlterableResource.BROKER:
        return changes
    return {name: text for name, text in changes.items() if existing.get(name) != text}


def replacement_ops(existing: Iterable[str], configs: Mapping[str, str | None]) -> list[ConfigOp]:
    """Return the operations of the older AlterConfigs: what it does not name is removed."""
    removed = [ConfigOp(name, AlterOp.DELETE, None) for name in existing if name not in configs]
    return [ConfigOp(name, AlterOp.SET, text) for name, text in configs.items()] + removed


def check_resource_name(resource_type: int, name: str) -> None:
    """Raise OperationError for a name that no resource of the type can have."""
    match resource_type:
        case AlterableResource.TOPIC if not name:
            raise _refused("Default topic resources are not allowed.")
        case AlterableResource.GROUP if not name:
            raise _refused("Default group resources are not allowed.")
        case AlterableResource.CLIENT_METRICS if not name:
            raise _refused("Subscription name can't be empty")
        case AlterableResource.BROKER if name:
            if not name.removeprefix("-").isdecimal():
                raise _refused("Unable to parse broker name as a base 10 number.")
            if int(name) < 0:
                raise _refused("Invalid negative broker ID.")
        case AlterableResource.BROKER_LOGGER if not name.isdecimal():
            raise _refused(f"Node id must be an integer, but it is: {name}")


def _refused(message: str) -> OperationError:
    return OperationError(ErrorCode.invalid_request, message)


def _invalid(message: str) -> OperationError:
    return OperationError(ErrorCode.invalid_config, message)


def _check_shape(ops: Sequence[ConfigOp]) -> None:
    if len({op.name for op in ops}) != len(ops):
        raise _refused("Error due to duplicate config keys")
    unknown = [op.operation for op in ops if op.operation not in AlterOp.__members__.values()]
    if unknown:
        raise _refused(f"Unknown operations type {unknown[0]}")
    nulls = [op.name for op in ops if op.value is None and op.operation != AlterOp.DELETE]
    if nulls:
        raise _refused(f"Null value not supported for : {','.join(nulls)}")


def _new_value(resource_type: int, current: str | None, op: ConfigOp) -> str | None:
    if op.operation == AlterOp.DELETE:
        return None
    given = op.value or ""
    if op.operation == AlterOp.SET:
        return given
    key = _KEYS[resource_type].get(op.name)
    if key is None or key.type is not LIST:
        raise _invalid(f"Can't {AlterOp(op.operation).name} to key {op.name} because its type is not LIST.")
    old = current if current is not None else key.default_text or ""
    members = [part for part in old.split(",") if part]
    parts = [part.strip() for part in given.split(",")]
    if op.operation == AlterOp.APPEND:
        members += [part for part in dict.fromkeys(parts) if part not in members]
    else:
        members = [member for member in members if member not in parts]
    return ",".join(members)


def _check_result(
    resource_type: int, existing: Mapping[str, str], changes: Mapping[str, str | None], context: AlterContext
) -> None:
    if any(text is not None and len(text.encode()) > MAX_VALUE_BYTES for text in changes.values()):
        raise _invalid(
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
        )
    merged = {name: text for name, text in {**existing, **changes}.items() if text is not None}
    try:
        match resource_type:
            case AlterableResource.TOPIC:
                check_topic(merged, context.server, topic=context.resource_name, existing=existing)
            case AlterableResource.CLIENT_METRICS:
                parse_client_metrics_overrides(merged)
            case AlterableResource.GROUP:
                parse_group_overrides(merged, context.server.values if context.server else {})
            case _:
                _check_broker(merged, changes, context)
    except ConfigError as error:
        # Brokers check their own changes and answer INVALID_REQUEST, the controller checks the rest.
        by_broker = resource_type == AlterableResource.BROKER or isinstance(error, SubscriptionError)
        raise (_refused if by_broker else _invalid)(str(error)) from error


def check_topic(
    overrides: Mapping[str, str],
    server: ServerConfig | None,
    *,
    topic: str = "",
    existing: Mapping[str, str] | None = None,
) -> None:
    """Raise ConfigError when a topic cannot have these settings on this node, or not after those it has."""
    defaults = TopicConfig() if server is None else topic_defaults(server)
    config = TopicConfig.from_overrides(overrides, defaults)
    if server is not None:
        check_remote_storage(
            config,
            system_enabled=server.remote_log_storage_system_enable,
            topic=topic,
            was_enabled=(existing or {}).get("remote.storage.enable", "").lower() == "true",
        )


def _check_broker(merged: Mapping[str, str], changes: Mapping[str, str | None], context: AlterContext) -> None:
    fixed = [name for name in changes if name in SERVER_KEYS and not SERVER_KEYS[name].dynamic]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    cluster_wide = not context.resource_name
    single = [name for name in changes if name in SERVER_KEYS and SERVER_KEYS[name].scope == "per-broker"]
    if cluster_wide and single:
        raise ConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )
    security = [name for name, text in changes.items() if text and (asks_for_security(name, text) or is_fixed(name))]
    if security:
        raise ConfigError(f"Settings of security are changed in the file of a node here: [{', '.join(security)}]")
    _check_elr(changes, context, cluster_wide=cluster_wide)
    for name, text in merged.items():
        key = _KEYS[AlterableResource.BROKER].get(name)
        if key is not None:
            key.parse(text)
    if context.server is not None:
        own = dict(merged)
        if context.resource_name != str(context.server.node_id):
            # What log dirs there are only the broker itself knows, and it checked before it forwarded.
            own.pop("cordoned.log.dirs", None)
        check_broker_local_retention(context.server.with_dynamic(own))


def _check_elr(changes: Mapping[str, str | None], context: AlterContext, *, cluster_wide: bool) -> None:
    if not context.elr_enabled or "min.insync.replicas" not in changes:
        return
    if not cluster_wide:
        raise _invalid("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if changes["min.insync.replicas"] is None:
        raise _invalid("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")


def _alter_loggers(ops: Sequence[ConfigOp], context: AlterContext) -> dict[str, str | None]:
    server = context.server
    if server is not None and int(context.resource_name) != server.node_id:
        raise _refused(f"Unexpected node id. Expected {server.node_id}, but received {context.resource_name}")
    for op in ops:
        _check_logger(op, context.loggers)
    return {op.name: op.value if op.operation == AlterOp.SET else None for op in ops}


def _check_logger(op: ConfigOp, loggers: frozenset[str]) -> None:
    operation = AlterOp(op.operation)
    if operation in {AlterOp.APPEND, AlterOp.SUBTRACT}:
        raise _refused(f"{operation.name} operation is not allowed for the BROKER_LOGGER resource")
    if op.name != ROOT_LOGGER and op.name not in loggers:
        raise _invalid(f"Logger {op.name} does not exist!")
    if operation == AlterOp.SET and op.value not in LOG_LEVELS:
        raise _invalid(
            f"Cannot set the log level of {op.name} to {op.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LOG_LEVELS)}"
        )
    if operation == AlterOp.DELETE and op.name == ROOT_LOGGER:
        raise _refused("Removing the log level of the root logger is not allowed")
