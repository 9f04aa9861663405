"""Logs with transactions that overlap, some of them aborted, over several segments."""

from __future__ import annotations

import random

from crabka.config.topic import TopicConfig
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.storage.small import NOW_MS, ProducerFields, make_batch

SMALL_SEGMENTS = TopicConfig(segment_bytes=1500, index_interval_bytes=200)


def fill_with_transactions(log: PartitionLog, seed: int = 1, *, rounds: int = 60) -> None:
    """Append batches of three transactional producers and of one without; about half of the transactions abort."""
    rng = random.Random(seed)
    sequences = dict.fromkeys((1, 2, 3), 0)
    is_open: set[int] = set()
    for _ in range(rounds):
        producer_id = rng.choice([0, 1, 2, 3])
        if producer_id in is_open and rng.random() < 0.4:
            end_transaction(log, producer_id, committed=rng.random() < 0.5)
            is_open.discard(producer_id)
            continue
        count = rng.randint(1, 3)
        if producer_id == 0:
            _append(log, make_batch(count))
        else:
            fields = ProducerFields(producer_id, 0, sequences[producer_id])
            _append(log, make_batch(count, producer=fields, transactional=True))
            sequences[producer_id] += count
            is_open.add(producer_id)
    for producer_id in sorted(is_open):
        end_transaction(log, producer_id, committed=False)


def end_transaction(log: PartitionLog, producer_id: int, *, committed: bool) -> None:
    """Append the marker that ends the transaction of a producer."""
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
    batch = build_end_transaction_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.set_high_watermark(log.log_end_offset)


def all_aborted(log: PartitionLog) -> list[AbortedTransaction]:
    """Return all aborted transactions of a log."""
    return log.reads.aborted_transactions(log.log_start_offset, log.log_end_offset)


def _append(log: PartitionLog, batch: bytes) -> None:
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.set_high_watermark(log.log_end_offset)
