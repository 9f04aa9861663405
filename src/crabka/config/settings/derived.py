"""Settings that follow from several keys: listeners, directories, and times given in different units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from crabka.config.keys import Value, parse_list
from crabka.config.listeners import PLAINTEXT, ListenerAddress, check_ports, parse_endpoints, parse_protocol_map
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

# In cordoned.log.dirs.
ALL_LOG_DIRS = "*"
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


def derived_fields(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields of ServerConfig that are not the plain value of one key. Raises ConfigError."""
    log_dirs = _log_dirs(values)
    return {
        **_listener_fields(values),
        "process_roles": frozenset(_texts(values, "process.roles")),
        "max_connections_per_ip_overrides": _connection_overrides(_text(values, "max.connections.per.ip.overrides")),
        "log_dirs": log_dirs,
        "metadata_log_dir": _text(values, "metadata.log.dir") or log_dirs[0],
        "cordoned_log_dirs": _cordoned_log_dirs(_texts(values, "cordoned.log.dirs"), log_dirs),
        "log_retention_ms": _retention_ms(values),
        "log_roll_ms": _first_of(values, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
        "log_roll_jitter_ms": _first_of(values, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
        "log_flush_interval_ms": _first_of(
            values, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)
        ),
    }


def _text(values: Mapping[str, Value], name: str) -> str:
    return str(values[name] or "")


def _texts(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    return cast("tuple[str, ...]", values[name] or ())


def _log_dirs(values: Mapping[str, Value]) -> tuple[str, ...]:
    return _texts(values, "log.dirs") or _texts(values, "log.dir")


def _cordoned_log_dirs(cordoned: tuple[str, ...], log_dirs: tuple[str, ...]) -> tuple[str, ...]:
    if ALL_LOG_DIRS in cordoned:
        if len(cordoned) > 1:
            raise ConfigError("When cordoned.log.dirs is set to *, it must not contain other values")
        return log_dirs
    missing = [path for path in cordoned if path not in log_dirs]
    if missing:
        raise ConfigError(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {','.join(missing)}"
        )
    return cordoned


def _first_of(values: Mapping[str, Value], *keys: tuple[str, int]) -> int:
    """Return the first key that has a value, in milliseconds."""
    for name, unit_ms in keys:
        value = values[name]
        if isinstance(value, int):
            return value * unit_ms
    raise ConfigError(f"none of {', '.join(name for name, _ in keys)} has a value")


def _retention_ms(values: Mapping[str, Value]) -> int:
    retention = _first_of(
        values, ("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)
    )
    if retention == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    return max(retention, -1)


def _listener_fields(values: Mapping[str, Value]) -> dict[str, Any]:
    controller_names = tuple(name.upper() for name in _texts(values, "controller.listener.names"))
    protocols = parse_protocol_map(_text(values, "listener.security.protocol.map"))
    for name in controller_names:
        protocols.setdefault(name, PLAINTEXT)
    listeners = parse_endpoints("listeners", _texts(values, "listeners"), protocols)
    check_ports(listeners)
    broker_side = tuple(listener for listener in listeners if listener.name not in controller_names)
    advertised = _advertised(values, protocols, broker_side, controller_names)
    return {
        "listeners": listeners,
        "advertised_listeners": advertised,
        "inter_broker_listener_name": _inter_broker_name(values, broker_side),
    }


def _advertised(
    values: Mapping[str, Value],
    protocols: Mapping[str, str],
    broker_side: tuple[ListenerAddress, ...],
    controller_names: tuple[str, ...],
) -> tuple[ListenerAddress, ...]:
    given = _texts(values, "advertised.listeners")
    if not given:
        return broker_side
    advertised = parse_endpoints("advertised.listeners", given, protocols)
    if any(listener.host == "0.0.0.0" for listener in advertised):  # noqa: S104 - it is refused here
        raise ConfigError(
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        )
    known = {listener.name for listener in broker_side}
    for listener in advertised:
        if listener.name not in known and listener.name not in controller_names:
            raise ConfigError(f"advertised.listeners: {listener.name} is not among the listeners {sorted(known)}")
    return tuple(listener for listener in advertised if listener.name not in controller_names)


def _inter_broker_name(values: Mapping[str, Value], broker_side: tuple[ListenerAddress, ...]) -> str:
    name = _text(values, "inter.broker.listener.name").upper()
    if not name:
        protocol = _text(values, "security.inter.broker.protocol")
        return next((listener.name for listener in broker_side if listener.security_protocol == protocol), protocol)
    if "broker" in _texts(values, "process.roles") and name not in {listener.name for listener in broker_side}:
        raise ConfigError(f"inter.broker.listener.name: {name} is not among the broker's listeners")
    return name


def _connection_overrides(text: str) -> dict[str, int]:
    """Parse `max.connections.per.ip.overrides`: host:count pairs."""
    overrides: dict[str, int] = {}
    for part in parse_list(text):
        host, _, count = part.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides: {part!r} is not of the form HOST:COUNT")
        overrides[host.strip()] = int(count)
    return overrides
