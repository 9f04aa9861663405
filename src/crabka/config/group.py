"""Settings of one consumer, share or streams group (KIP-1043, `kafka-configs --entity-type groups`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabka.config.keys import INT, STRING, ConfigKey, Value, boolean, index_keys
from crabka.config.validators import Matches, OneOf, at_least
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?\Z", re.IGNORECASE)


def _is_offset_reset(value: Value) -> bool:
    return value in {"latest", "earliest"} or _DURATION.match(str(value)) is not None


_OFFSET_RESET = Matches(
    _is_offset_reset,
    "[latest, earliest, by_duration:PnDTnHnMn.nS]",
    "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
)

GROUP_KEYS: Mapping[str, ConfigKey] = index_keys(
    (
        ConfigKey("consumer.session.timeout.ms", INT, 45_000, "How long a silent member stays.", at_least(1)),
        ConfigKey("consumer.heartbeat.interval.ms", INT, 5_000, "How often members report.", at_least(1)),
        ConfigKey("consumer.assignment.interval.ms", INT, 1_000, "Least time between assignments.", at_least(0)),
    ),
    tuple(
        ConfigKey(name, INT, default, doc, at_least(low), effect="none")
        for name, default, low, doc in (
            ("share.session.timeout.ms", 45_000, 1, "How long a silent share member stays."),
            ("share.heartbeat.interval.ms", 5_000, 1, "How often share members report."),
            ("share.assignment.interval.ms", 1_000, 0, "Least time between assignments of a share group."),
            ("share.record.lock.duration.ms", 30_000, 1_000, "How long a delivered record stays locked."),
            ("share.delivery.count.limit", 5, 2, "How often a record is delivered before it is rejected."),
            ("share.partition.max.record.locks", 2_000, 100, "The most records in flight per share partition."),
            ("streams.session.timeout.ms", 45_000, 1, "How long a silent streams member stays."),
            ("streams.heartbeat.interval.ms", 5_000, 1, "How often streams members report."),
            ("streams.assignment.interval.ms", 1_000, 0, "Least time between assignments of a streams group."),
            ("streams.initial.rebalance.delay.ms", 3_000, 0, "How long the first rebalance waits for members."),
            ("streams.num.standby.replicas", 0, 0, "Standby replicas of each streams task."),
        )
    ),
    (
        ConfigKey(
            "share.auto.offset.reset", STRING, "latest", "Where a new share group starts.", _OFFSET_RESET, effect="none"
        ),
        ConfigKey(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            "Whether aborted records are delivered.",
            OneOf(("read_committed", "read_uncommitted")),
            effect="none",
        ),
        boolean(
            "share.renew.acknowledge.enable", "Whether a consumer may prolong its lock.", default=True, effect="none"
        ),
    ),
)
"""All group settings by name."""

_OWN_DEFAULT = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})


def broker_synonym(name: str) -> str | None:
    """Return the broker setting that gives the default of a group setting; a few have none."""
    return None if name in _OWN_DEFAULT else f"group.{name}"


def parse_group_overrides(overrides: Mapping[str, str], limits: Mapping[str, Value]) -> dict[str, Value]:
    """Parse a group's own settings against the limits among the broker's settings. Raises ConfigError."""
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown group config name: {name}")
        parsed[name] = key.parse(text)
    for name, value in parsed.items():
        _check_limits(name, value, limits)
    for kind in ("consumer", "share", "streams"):
        _check_heartbeat(kind, parsed, limits)
    return parsed


def _check_limits(name: str, value: Value, limits: Mapping[str, Value]) -> None:
    if not isinstance(value, int):
        return
    kind, _, rest = name.partition(".")
    low_name, high_name = (f"group.{kind}.{bound}.{rest}" for bound in ("min", "max"))
    if name == "streams.num.standby.replicas":
        high_name = "group.streams.max.standby.replicas"
    low, high = limits.get(low_name), limits.get(high_name)
    if isinstance(low, int) and value < low:
        raise ConfigError(f"{name} must be greater than or equal to {low_name}")
    if isinstance(high, int) and value > high:
        raise ConfigError(f"{name} must be less than or equal to {high_name}")


def _check_heartbeat(kind: str, parsed: Mapping[str, Value], limits: Mapping[str, Value]) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in parsed and heartbeat not in parsed:
        return
    session_ms = parsed.get(session, limits.get(f"group.{session}"))
    heartbeat_ms = parsed.get(heartbeat, limits.get(f"group.{heartbeat}"))
    if isinstance(session_ms, int) and isinstance(heartbeat_ms, int) and session_ms <= heartbeat_ms:
        raise ConfigError(f"{session} must be greater than {heartbeat}")
