"""Replays batches of `__consumer_offsets` into the shard of their partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crabka.broker.coordinators.loader import replay_records
from crabka.broker.groups.records import decode_pair
from crabka.broker.groups.shard import OFFSETS_TOPIC
from crabka.log.recovery.replay import end_marker

if TYPE_CHECKING:
    from crabka.broker.groups.shard import GroupShard
    from crabka.records.header import BatchHeader


def replay_batch(shard: GroupShard, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
    """Apply one batch; return its number of records."""
    if header.is_control:
        marker = end_marker(batch, header)
        if marker is not None:
            shard.offsets.complete(header.producer_id, commit=marker.committed)
        return 1
    producer_id = header.producer_id if header.is_transactional else -1
    apply = partial(shard.replay, now_ms=now_ms, producer_id=producer_id)
    return replay_records(batch, header, OFFSETS_TOPIC, decode=decode_pair, apply=apply)
