"""Settings that follow from several keys: listeners, directories, and times given in different units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from crabka.config.keys import Value, parse_list
from crabka.config.listeners import (
    PLAINTEXT,
    ListenerAddress,
    check_ports,
    listener_name_of,
    parse_endpoints,
    parse_protocol_map,
)
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

# In cordoned.log.dirs.
ALL_LOG_DIRS = "*"
_PROTECTED = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


def derived_fields(values: Mapping[str, Value], given: Container[str]) -> dict[str, Any]:
    """Return the fields of ServerConfig that are not the plain value of one key.

    `given` are the keys that the operator set. Raises ConfigError.
    """
    log_dirs = _log_dirs(values)
    return {
        **_listener_fields(values, given),
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


def _listener_fields(values: Mapping[str, Value], given: Container[str]) -> dict[str, Any]:
    controller_names = tuple(name.upper() for name in _texts(values, "controller.listener.names"))
    protocols = _security_protocols(values, given, controller_names)
    listeners = parse_endpoints("listeners", _texts(values, "listeners"), protocols)
    check_ports(listeners)
    broker_side = tuple(listener for listener in listeners if listener.name not in controller_names)
    advertised = _advertised(values, protocols, broker_side, controller_names)
    inter_broker_name = _inter_broker_name(values, given, protocols)
    if "broker" in _texts(values, "process.roles"):
        _check_inter_broker_name(
            inter_broker_name, advertised, is_given=bool(_text(values, "inter.broker.listener.name"))
        )
    return {
        "listeners": listeners,
        "advertised_listeners": advertised,
        "inter_broker_listener_name": inter_broker_name,
        "security_protocols": protocols,
    }


def _security_protocols(
    values: Mapping[str, Value], given: Container[str], controller_names: tuple[str, ...]
) -> dict[str, str]:
    """Return the security protocol of each listener name.

    As in Kafka, controller listeners are PLAINTEXT by themselves only where no protocol is chosen at all.
    """
    protocols = parse_protocol_map(_text(values, "listener.security.protocol.map"))
    names = {*controller_names, *(listener_name_of(text) for text in _texts(values, "listeners"))}
    if "listener.security.protocol.map" not in given and not names & _PROTECTED:
        return {**dict.fromkeys(controller_names, PLAINTEXT), **protocols}
    missing = [name for name in controller_names if name not in protocols]
    if missing:
        raise ConfigError(
            f"Controller listener with name {missing[0]} defined in controller.listener.names not found in"
            " listener.security.protocol.map  (an explicit security mapping for each controller listener is required"
            " if listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT"
            " in use)"
        )
    return protocols


def _advertised(
    values: Mapping[str, Value],
    protocols: Mapping[str, str],
    broker_side: tuple[ListenerAddress, ...],
    controller_names: tuple[str, ...],
) -> tuple[ListenerAddress, ...]:
    given = _texts(values, "advertised.listeners")
    advertised = parse_endpoints("advertised.listeners", given, protocols) if given else broker_side
    _refuse_any_address(advertised, "advertised.listeners" if given else "listeners")
    if not given:
        return broker_side
    known = {listener.name for listener in broker_side}
    for listener in advertised:
        if listener.name not in known and listener.name not in controller_names:
            raise ConfigError(f"advertised.listeners: {listener.name} is not among the listeners {sorted(known)}")
    return tuple(listener for listener in advertised if listener.name not in controller_names)


def _refuse_any_address(advertised: tuple[ListenerAddress, ...], key: str) -> None:
    """Refuse the address that stands for all of a machine's: as in Kafka, clients cannot be sent there."""
    for listener in advertised:
        if listener.host == "0.0.0.0":  # noqa: S104 - it is refused here
            raise ConfigError(
                f"{key}: {listener} would be advertised to clients, which cannot connect to 0.0.0.0; "
                f"set advertised.listeners to {listener.name}://HOST:{listener.port} with a host that they reach"
            )


def _inter_broker_name(values: Mapping[str, Value], given: Container[str], protocols: Mapping[str, str]) -> str:
    name = _text(values, "inter.broker.listener.name").upper()
    if not name:
        return _text(values, "security.inter.broker.protocol")
    if "security.inter.broker.protocol" in given:
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if name not in protocols:
        raise ConfigError(
            f"Listener with name {name} defined in inter.broker.listener.name not found in"
            " listener.security.protocol.map."
        )
    return name


def _check_inter_broker_name(name: str, advertised: tuple[ListenerAddress, ...], *, is_given: bool) -> None:
    names = [listener.name for listener in advertised]
    if names and name not in names and not is_given:
        raise ConfigError(
            f"inter.broker.listener.name is not set, and no listener is called {name}, as"
            f" security.inter.broker.protocol is: set it to the listener through which brokers reach"
            f" each other, one of {', '.join(names)}"
        )
    if names and name not in names:
        raise ConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options"
            f" based on currently configured listeners are {','.join(names)}"
        )


def _connection_overrides(text: str) -> dict[str, int]:
    """Parse `max.connections.per.ip.overrides`: host:count pairs."""
    overrides: dict[str, int] = {}
    for part in parse_list(text):
        host, _, count = part.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides: {part!r} is not of the form HOST:COUNT")
        overrides[host.strip()] = int(count)
    return overrides
