"""Small tiered logs in memory, for tests."""

from __future__ import annotations

from crabka.config.topic import TopicConfig
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.producers.snapshots import encode_snapshot
from crabka.log.recovery.recovery import OpenOptions
from crabka.log.segment.context import SegmentContext
from tests.support.storage.small import NOW_MS, SEGMENT_BYTES, ProducerFields, append, make_batch, open_test_log

EMPTY_SNAPSHOT = encode_snapshot([])


def tiered_config(**settings: object) -> TopicConfig:
    """Return settings of a tiered topic: two records of `filled_log` in a segment, kept for ever by default."""
    defaults: dict[str, object] = {
        "internal_segment_bytes": SEGMENT_BYTES,
        "remote_storage_enable": True,
        "retention_ms": -1,
        "index_interval_bytes": 1,
    }
    return TopicConfig(**{**defaults, **settings})  # type: ignore[arg-type] # names are those of the fields


def filled_log(
    config: TopicConfig | None = None,
    *,
    context: SegmentContext | None = None,
    options: OpenOptions | None = None,
    count: int = 10,
) -> PartitionLog:
    """Return a flushed log of single records of one producer, two in each segment, one second apart.

    A new leader epoch begins with every fourth record.
    """
    log = open_test_log(context, config or tiered_config(), options)
    for index in range(log.log_end_offset, count):
        batch = make_batch(timestamp=NOW_MS + 1000 * index, producer=ProducerFields(1, 0, index))
        append(log, batch, leader_epoch=index // 4)
    log.flush()
    return log


def drop_tiered(log: PartitionLog, now_ms: int = NOW_MS) -> list[int]:
    """Let all segments go that may, as the owner of a log does; return their base offsets."""
    dropped = []
    while (segment := log.retention.drop_oldest_tiered(now_ms)) is not None:
        log.retention.sync_names()
        dropped.append(segment.base_offset)
    return dropped
