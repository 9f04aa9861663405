"""Finds transactions that are open in a partition and that no coordinator knows, as kafka-transactions does (KIP-664).

Their producer cannot end them and their coordinator does not: readers of committed records stop before them for ever.
Only partitions whose last stable offset is below their end are examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ActiveProducer
from crabka.clients.admin.transactions import TransactionDescription
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.fetcher.offsets import LATEST, OffsetAndTimestamp, list_offsets_once
from crabka.errors import OperationError
from crabka.ids import TopicPartition

# Kafka's default of transaction.max.timeout.ms: no transaction may be open for longer.
DEFAULT_MAX_TIMEOUT_MS: Final = 900_000
_PARTITIONS_AT_ONCE: Final = 2_000

_Answer = OffsetAndTimestamp | OperationError | None
Producers = Mapping[TopicPartition, Sequence[ActiveProducer]]


class OpenInPartition(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ActiveProducer


def overdue_producers(producers: Producers, now_ms: int, max_timeout_ms: int) -> list[OpenInPartition]:
    """Return the open transactions whose last record is older than any transaction may be."""
    return [
        OpenInPartition(partition, producer)
        for partition, found in sorted(producers.items())
        for producer in found
        if producer.current_transaction_start_offset >= 0 and now_ms - producer.last_timestamp > max_timeout_ms
    ]


def without_coordinator(
    overdue: Iterable[OpenInPartition], known: Iterable[TransactionDescription]
) -> list[OpenInPartition]:
    """Return those of which no coordinator has an open transaction with this producer and this partition."""
    places = {(each.producer_id, partition) for each in known for partition in each.partitions}
    return [each for each in overdue if (each.producer.producer_id, each.partition) not in places]


async def find_hanging(
    cluster: Cluster, partitions: Iterable[TopicPartition], max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS
) -> list[OpenInPartition]:
    """Return the hanging transactions in some partitions. Raises OperationError, ClientNetworkError."""
    admin = Admin(cluster)
    blocked = await find_blocked(cluster, partitions)
    if not blocked:
        return []
    now_ms = cluster.runtime.clock.now_ms()
    overdue = overdue_producers(await admin.describe_producers(blocked), now_ms, max_timeout_ms)
    if not overdue:
        return []
    producer_ids = sorted({each.producer.producer_id for each in overdue})
    listed = await admin.transactions.list(producer_ids=producer_ids)
    known = await admin.transactions.describe(each.transactional_id for each in listed)
    return without_coordinator(overdue, known.values())


async def find_blocked(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions with an open transaction; those whose leader does not answer are left out."""
    wanted = sorted(partitions)
    blocked: list[TopicPartition] = []
    for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
        some = dict.fromkeys(wanted[start : start + _PARTITIONS_AT_ONCE], LATEST)
        stable, ends = [
            await list_offsets_once(cluster, some, read_committed=committed, timeout_ms=30_000)
            for committed in (True, False)
        ]
        blocked += [each for each in some if _is_open(stable.get(each), ends.get(each))]
    return blocked


def _is_open(stable: _Answer, end: _Answer) -> bool:
    if isinstance(stable, OffsetAndTimestamp) and isinstance(end, OffsetAndTimestamp):
        return stable.offset < end.offset
    return False
