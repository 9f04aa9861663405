"""Settings of a node that only Crabka has; those of a topic would be in `config/topic.py`."""

from __future__ import annotations

from crabka.config.keys import CLUSTER_WIDE, INT, LONG, PER_BROKER, STRING, ConfigKey, Value, boolean
from crabka.config.listeners import parse_address
from crabka.config.validators import Between, Matches, at_least
from crabka.errors import ConfigError


def _is_address(value: Value) -> bool:
    if value is None:
        return True
    try:
        parse_address(str(value))
    except ConfigError:
        return False
    return True


HTTP_ADDRESS = Matches(_is_address, "HOST:PORT", "Not an address of the form HOST:PORT")

CRABKA_KEYS = (
    boolean(
        "crabka.validate.records",
        "Look into every batch that is produced, not only into its header, and refuse malformed records.",
        default=False,
    ),
    ConfigKey(
        "crabka.slow.append.ms",
        LONG,
        500,
        "An append that takes longer makes its log dir slow: a thread writes to that dir until it is fast again, so "
        "that it does not delay other dirs.",
        at_least(1),
    ),
    boolean(
        "crabka.fast.failure.detection.enable",
        "Whether the active controller fences a broker before its session is over when its process is surely gone: "
        "its connection broke and its port refuses connections.",
        default=True,
    ),
    ConfigKey(
        "crabka.remote.leftover.grace.ms",
        LONG,
        300_000,
        "How long the leader of a partition waits before it removes an upload to the remote tier that another broker, "
        "or an earlier run of this one, began and did not finish.",
        at_least(1),
    ),
    ConfigKey(
        "crabka.remote.chunk.cache.bytes",
        LONG,
        128 * 1024 * 1024,
        "Memory for pieces of segments that were read from the remote tier, or are read ahead of a consumer.",
        at_least(8 * 1024 * 1024),
    ),
    ConfigKey(
        "crabka.remote.verified.ttl.ms",
        LONG,
        600_000,
        "How long bytes of the remote tier that were found to be whole are served without another check. Every part is "
        "checked when it is read first; 0 checks every read.",
        at_least(0),
        scope=CLUSTER_WIDE,
    ),
    boolean(
        "crabka.log.scrub.enable",
        "Whether all logs are read in the background and checked for damage. What a request meets is repaired anyway.",
        default=True,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "crabka.log.scrub.interval.ms",
        LONG,
        7 * 24 * 60 * 60 * 1000,
        "Time from the start of one check of all logs to the start of the next. The first one starts ten minutes "
        "after the node, or after this time if that is shorter.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "crabka.log.scrub.max.bytes.per.second",
        LONG,
        8 * 1024 * 1024,
        "How much the check of the logs reads at most.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "crabka.log.scrub.max.cpu.percent",
        INT,
        5,
        "The share of one core that the check of the logs takes at most, averaged over each of its steps.",
        Between(1, 100),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "crabka.log.scrub.now",
        STRING,
        "",
        "A check of all logs starts when this value changes, whatever it is; `crabka log-dirs check` sets it.",
        scope=PER_BROKER,
    ),
    ConfigKey(
        "crabka.http.listener",
        STRING,
        None,
        "Where /metrics, /healthz and /readyz are served over HTTP, as HOST:PORT; without it they are not served.",
        HTTP_ADDRESS,
    ),
)
