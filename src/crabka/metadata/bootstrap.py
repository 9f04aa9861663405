"""What a node writes when it becomes the active controller (Kafka's ActivationRecordsGenerator).

The records of a new cluster come from `bootstrap.checkpoint`; an empty log gets them in one metadata transaction. A
transaction that a stopped controller left open is aborted first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.features import DEFAULT_FEATURE_LEVELS, ELR_VERSION, METADATA_VERSION
from crabka.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

# 3.6-IV1: metadata transactions.
TRANSACTIONS_METADATA_VERSION = 13
BOOTSTRAP_TRANSACTION_NAME = "Bootstrap records"
ABORT_REASON = "Controller failover"


def feature_records(levels: Mapping[str, int] = DEFAULT_FEATURE_LEVELS) -> list[FeatureLevelRecord]:
    """Return the records of `bootstrap.checkpoint`: metadata.version, then the others by name; 0 is left out."""
    names = [METADATA_VERSION, *sorted(name for name in levels if name != METADATA_VERSION)]
    return [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names if levels.get(name, 0) > 0]


def activation_records(
    bootstrap: Sequence[Any], *, log_is_empty: bool, in_transaction: bool, min_insync_replicas: int = 1
) -> list[Any]:
    """Return what the controller appends before anything else; empty if there is nothing to mend."""
    abort: list[Any] = [AbortTransactionRecord(reason=ABORT_REASON)] if in_transaction else []
    if not log_is_empty:
        return abort
    levels = {record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)}
    records = [*bootstrap, *_elr_defaults(levels, min_insync_replicas)]
    if levels.get(METADATA_VERSION, 0) >= TRANSACTIONS_METADATA_VERSION:
        records = [BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION_NAME), *records, EndTransactionRecord()]
    return abort + records


def _elr_defaults(levels: Mapping[str, int], min_insync_replicas: int) -> list[ConfigRecord]:
    """With eligible leader replicas (KIP-966) min.insync.replicas must be known cluster-wide, not per broker file."""
    if levels.get(ELR_VERSION, 0) < 1:
        return []
    return [
        ConfigRecord(
            resource_type=ConfigResourceType.BROKER,
            resource_name="",
            name="min.insync.replicas",
            value=str(min_insync_replicas),
        )
    ]
