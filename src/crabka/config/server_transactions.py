"""Transactions and their coordinator."""

from __future__ import annotations

from dataclasses import dataclass

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
    boolean(
        "transaction.two.phase.commit.enable",
        "Whether producers may take part in a two-phase commit of their own.",
        default=False,
        effect="none",
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


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TransactionSettings:
    """Fields of ServerConfig, which alone is built: values of the keys above that Crabka acts on."""

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
