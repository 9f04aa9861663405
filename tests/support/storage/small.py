"""Small logs in memory, for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.segment import Segment
from crabka.ports import FileSystem
from crabka.records.builder import build_batch
from crabka.records.header import BatchHeader, iter_headers
from crabka.records.record import Record, decode_records
from crabka.testing import MemoryFileSystem

TOPIC_PARTITION = TopicPartition("orders", 0)
LOG_DIR = "/data"
LOG_PATH = f"{LOG_DIR}/orders-0"
NOW_MS = 1_700_000_000_000


class ProducerFields(NamedTuple):
    """Producer fields of a batch."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0


def make_batch(
    count: int = 1,
    *,
    value_bytes: int = 10,
    timestamp: int = NOW_MS,
    producer: ProducerFields | None = None,
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return a batch of `count` records whose timestamps rise by one."""
    records = [Record(0, timestamp + i, b"k%d" % i, b"v" * value_bytes) for i in range(count)]
    return build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer.producer_id if producer else -1,
        producer_epoch=producer.epoch if producer else -1,
        base_sequence=producer.sequence if producer else -1,
        transactional=transactional,
    )


def make_context(fs: FileSystem | None = None) -> SegmentContext:
    """Return what segments share, on an empty disk in memory."""
    if fs is None:
        fs = MemoryFileSystem()
        fs.makedirs(LOG_DIR)
    return SegmentContext(fs, rng=random.Random(1))


def open_test_log(
    context: SegmentContext | None = None, config: TopicConfig | None = None, options: OpenOptions | None = None
) -> PartitionLog:
    """Open the log of `orders-0`."""
    return open_log(
        context or make_context(),
        LOG_PATH,
        TOPIC_PARTITION,
        config or TopicConfig(),
        options or OpenOptions(clean=True, now_ms=NOW_MS),
    )


def append(log: PartitionLog, batch: bytes, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> int:
    """Append a batch as leader and let the high watermark follow; return its first offset."""
    result = log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=now_ms)
    log.set_high_watermark(log.log_end_offset)
    return result.first_offset


SEGMENT_BYTES = 2 * len(make_batch(producer=ProducerFields(1)))
TWO_PER_SEGMENT = TopicConfig(internal_segment_bytes=SEGMENT_BYTES, retention_ms=-1)


def segmented_log(config: TopicConfig = TWO_PER_SEGMENT) -> PartitionLog:
    """Return a log of ten single records of one producer, two in each segment, one second apart."""
    log = open_test_log(config=config)
    for index in range(10):
        batch = make_batch(timestamp=NOW_MS + 1000 * index, producer=ProducerFields(1, 0, index))
        append(log, batch, leader_epoch=index // 4)
    return log


def apply_retention(log: PartitionLog, now_ms: int) -> list[Segment]:
    """Drop the segments that age, size and log start no longer keep, as the owner of a log does; return them."""
    log.retention.expire(now_ms)
    return log.retention.delete_below_log_start(now_ms)


def read_headers(log: PartitionLog, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Read the log to its end and return the headers of all batches."""
    return [header for header, _ in read_batches(log, start, max_bytes=max_bytes)]


def read_batches(
    log: PartitionLog, start: int | None = None, *, max_bytes: int = 1 << 20
) -> list[tuple[BatchHeader, bytes]]:
    """Read the log to its end and return all batches."""
    found = []
    offset = log.local_log_start_offset if start is None else start
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=max_bytes).read()
        before = offset
        for position, header in iter_headers(data):
            found.append((header, data[position : position + header.size_in_bytes]))
            offset = header.next_offset
        assert offset > before, f"no progress at offset {offset}"
    return found


def read_records(log: PartitionLog) -> Sequence[Record]:
    """Read all data records from the log start on."""
    records = []
    for header, batch in read_batches(log):
        if not header.is_control:
            records += [record for record in decode_records(batch, header) if record.offset >= log.log_start_offset]
    return records
