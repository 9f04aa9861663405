"""Replays batches of `__consumer_offsets` into the shard of their partition."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.groups.records import decode_pair
from crabka.errors import WireError
from crabka.log.recovery.replay import end_marker
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from crabka.broker.groups.shard import GroupShard
    from crabka.records.header import BatchHeader

logger = logging.getLogger(__name__)


def replay_batch(shard: GroupShard, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
    """Apply one batch; return its number of records."""
    if header.is_control:
        marker = end_marker(batch, header)
        if marker is not None:
            shard.offsets.complete(header.producer_id, commit=marker.committed)
        return 1
    producer_id = header.producer_id if header.is_transactional else -1
    records = decode_records(batch, header)
    for record in records:
        if record.key is None:
            continue
        try:
            stored = decode_pair(record.key, record.value)
        except WireError as error:
            # As in Kafka: one group may be lost, not the whole partition.
            logger.warning("The record at offset %d of __consumer_offsets cannot be read: %s", record.offset, error)
            continue
        if stored is None:
            logger.warning("The record at offset %d of __consumer_offsets is of an unknown kind", record.offset)
        else:
            shard.replay(stored, now_ms, producer_id)
    return len(records)
