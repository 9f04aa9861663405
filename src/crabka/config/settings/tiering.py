"""Tiered storage (KIP-405)."""

from __future__ import annotations

from crabka.config.keys import CLUSTER_WIDE, DOUBLE, INT, LONG, LONG_MAX, STRING, ConfigKey, boolean
from crabka.config.validators import Between, NotEmpty, at_least

TIER_ADDRESS_KEYS = frozenset(
    f"rsm.config.{name}"
    for name in (
        *("dir", "bucket", "prefix", "account", "container"),
        *("endpoint", "region", "allow.http", "virtual.hosted.style"),
    )
)
"""Locations of the built-in storages. Brokers show these, so that readers of the tier find it."""

TIERING_KEYS = (
    boolean("remote.log.storage.system.enable", "Whether the node can copy segments to a remote tier.", default=False),
    ConfigKey(
        "remote.log.storage.manager.class.name",
        STRING,
        None,
        "The storage: s3, gcs, azure, file, local (as Kafka's LocalTieredStorage), or package.module:Class.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.storage.manager.impl.prefix",
        STRING,
        "rsm.config.",
        "The prefix of keys that are handed to the storage.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.metadata.manager.impl.prefix",
        STRING,
        "rlmm.config.",
        "The prefix of keys that are handed to the metadata keeper.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.metadata.manager.listener.name",
        STRING,
        None,
        "The listener over which the metadata topic is read and written.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.metadata.custom.metadata.max.bytes",
        INT,
        128,
        "The most bytes that a storage may note per segment.",
        at_least(0),
    ),
    ConfigKey(
        "remote.log.manager.task.interval.ms",
        LONG,
        30_000,
        "How often partitions are checked for segments to copy or remove.",
        at_least(1),
    ),
    ConfigKey(
        "remote.log.manager.task.retry.backoff.ms",
        LONG,
        500,
        "The first pause after a failed copy.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        "remote.log.manager.task.retry.backoff.max.ms",
        LONG,
        30_000,
        "The longest pause after failed copies.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        "remote.log.manager.task.retry.jitter",
        DOUBLE,
        0.2,
        "The random share of those pauses.",
        Between(0, 0.5),
        internal=True,
    ),
    ConfigKey(
        "remote.log.manager.copier.thread.pool.size",
        INT,
        10,
        "How many segments are copied at once.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.expiration.thread.pool.size",
        INT,
        10,
        "How many partitions expire remote segments at once.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "The most bytes per second copied to the tier.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.copy.quota.window.num",
        INT,
        11,
        "Windows over which copying is measured.",
        at_least(1),
    ),
    ConfigKey(
        "remote.log.manager.copy.quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which copying is measured.",
        at_least(1),
    ),
    ConfigKey(
        "remote.log.manager.fetch.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "The most bytes per second read from the tier.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.fetch.quota.window.num",
        INT,
        11,
        "Windows over which remote reading is measured.",
        at_least(1),
    ),
    ConfigKey(
        "remote.log.manager.fetch.quota.window.size.seconds",
        INT,
        1,
        "The length of a window over which remote reading is measured.",
        at_least(1),
    ),
    ConfigKey(
        "remote.log.reader.threads",
        INT,
        10,
        "How many remote reads run at once.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.reader.max.pending.tasks",
        INT,
        100,
        "How many remote reads may wait.",
        at_least(1),
    ),
    ConfigKey(
        "remote.log.index.file.cache.total.size.bytes",
        LONG,
        1_073_741_824,
        "Disk space for indexes fetched from the tier.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.index.file.cache.ttl.ms",
        LONG,
        900_000,
        "How long an unused fetched index is kept.",
        at_least(-1),
        internal=True,
    ),
    ConfigKey(
        "remote.fetch.max.wait.ms",
        INT,
        500,
        "How long a fetch waits for remote data.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.list.offsets.request.timeout.ms",
        LONG,
        30_000,
        "How long a search by timestamp in the tier may take.",
        at_least(1),
        scope=CLUSTER_WIDE,
    ),
)
