"""Transactions and their coordinator."""

from __future__ import annotations

from crabka.config.keys import CLUSTER_WIDE, INT, SHORT, ConfigKey, boolean
from crabka.config.validators import at_least

TRANSACTIONS_KEYS = (
    ConfigKey(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The longest timeout that a producer may ask for.",
        at_least(1),
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "How long an unused transactional id is remembered.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of `__transaction_state`.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replicas of `__transaction_state`.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        INT,
        2,
        "In-sync replicas that `__transaction_state` needs.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        "Segment size of `__transaction_state`.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        "How many bytes are read at once while transactions are loaded.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often transactions over their timeout are looked for.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often expired transactional ids are looked for.",
        at_least(1),
    ),
    boolean(
        "transaction.partition.verification.enable",
        "Whether a transactional write of a client that adds its partitions itself is checked against the state of the "
        "coordinator. Clients of transactions v2 leave the adding to the write, which always asks the coordinator.",
        default=True,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "The pause before a partition is added to a transaction again whose last one is ending.",
        at_least(1),
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "For how long a write waits for the end of the producer's last transaction.",
        at_least(0),
    ),
)
