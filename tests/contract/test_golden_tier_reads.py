"""Tiers that Apache Kafka 4.3.0 wrote are read as Kafka reads them: records, transactions, offsets."""

from __future__ import annotations

import base64
import json
import random
from functools import cache
from types import SimpleNamespace
from typing import Any, Self

import pytest

from crabka.broker.handlers import list_offsets
from crabka.broker.partition.partition import Partition
from crabka.broker.tiering.limits import ByteRateQuota
from crabka.broker.tiering.read.chunk_cache import ChunkCache
from crabka.broker.tiering.read.healing.verified_parts import VerifiedParts
from crabka.broker.tiering.read.index_cache import IndexCacheLimits, RemoteIndexCache
from crabka.broker.tiering.read.index_files import IndexFiles
from crabka.broker.tiering.read.pool import ReaderPool
from crabka.broker.tiering.read.reader import RemoteFetch, RemoteReads
from crabka.broker.tiering.read.tools import ReadTools
from crabka.broker.tiering.stats import TierStats
from crabka.config.topic import TopicConfig
from crabka.ids import uuid_from_text
from crabka.log.dirs.log_manager import LogManager
from crabka.log.partition.timestamps import TimestampOffset
from crabka.ports import Runtime
from crabka.records.control import parse_control_record
from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.testing import InlineThreads, SimulatedClock, SimulatedNetwork, VirtualTimeLoop
from crabka.testing.remote_samples import sample_update
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.files import GOLDEN
from tests.support.tiers.remote_reading import joined

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
PARTITIONS = [
    ("single", "tiered", 0),
    ("single", "tiered", 1),
    ("single", "tiered-txn", 0),
    ("single", "tiered-retention", 0),
    ("single", "tiered-deleterecords", 0),
    ("overlap", "tiered-overlap", 0),
]
SPECS = {
    "earliest": -2,
    "earliest_local": -4,
    "latest_tiered": -5,
    "earliest_pending_upload": -6,
    "max_timestamp": -3,
    "timestamp_1700000050500": 1700000050500,
}


@cache
def expected(golden: str) -> Any:
    return json.loads((GOLDEN / golden / "expected.json").read_text())


class GoldenTier:
    """A partition that Kafka left behind, on a disk and in a tier, with what a node reads it by."""

    def __init__(self, golden: str, topic: str, index: int, *, opens_files: bool) -> None:
        self.loop = VirtualTimeLoop()
        fs = copy_to_memory(GOLDEN / golden / "tier", "/tier")
        dirs = [f"/{path.name}" for path in sorted((GOLDEN / golden).glob("d[12]"))]
        for path in dirs:
            copy_to_memory(GOLDEN / golden / path[1:], path, fs)
        threads, clock = InlineThreads(self.loop), SimulatedClock(self.loop)
        network = SimulatedNetwork(self.loop, random.Random(1)).host("node")
        runtime = Runtime(clock, random.Random(1), threads, fs, network)
        logs = LogManager(runtime, dirs)
        self.loop.run_until_complete(logs.load(lambda name: TopicConfig(remote_storage_enable="tiered" in name)))
        self.log = log = next(log for log in logs if log.topic_partition == (topic, index))
        self.storage = LocalTieredStorage(fs, "/tier/kafka-tiered-storage")
        if not opens_files:
            self.storage.open_local = lambda _metadata: None  # type: ignore[method-assign,assignment]
        rlmm = self._metadata(golden, topic, index)
        pool = ReaderPool(lambda _size: threads, size=lambda: 2, max_pending=100)
        chunks = ChunkCache(self.storage, pool, capacity_bytes=1 << 20, chunk_bytes=1000)
        files = IndexFiles(fs, "/d1", self.storage)
        indexes = RemoteIndexCache(files, pool, clock, lambda: IndexCacheLimits(1 << 20, -1))
        tools = ReadTools(
            self.storage,
            rlmm,
            pool,
            chunks=chunks,
            indexes=indexes,
            clock=clock,
            stats=TierStats(),
            verified=VerifiedParts(clock, lambda: 60_000),
        )
        quota = ByteRateQuota(lambda: 1 << 60, sample_count=11, sample_ms=1000)
        self.reads = RemoteReads(tools, fetch_quota=quota)
        writer: Any = None
        self.partition = Partition(
            topic, index, uuid_from_text(expected(golden)["topics"][topic]["topic_id"]), log, writer
        )
        # One restart of the node lies behind the last record.
        self.partition.leader_epoch = log.last_epoch
        self.context: Any = SimpleNamespace(runtime=runtime, request_threads=runtime.threads, remote_reads=self.reads)

    def _metadata(self, golden: str, topic: str, index: int) -> InmemoryRemoteLogMetadataManager:
        rlmm = InmemoryRemoteLogMetadataManager()
        for row in expected(golden)["remote_segments"]["segments"]:
            if (row["topic"], row["partition"], row["state"]) != (topic, index, FINISHED.name):
                continue
            partition = TopicIdPartition(uuid_from_text(row["topic_id"]), topic, index)
            segment = RemoteLogSegmentMetadata(
                segment_id=RemoteLogSegmentId(partition, uuid_from_text(row["segment_id"])),
                start_offset=row["start_offset"],
                end_offset=row["end_offset"],
                max_timestamp_ms=row["max_timestamp"],
                broker_id=1,
                event_timestamp_ms=0,
                segment_size_bytes=row["size"],
                leader_epochs=tuple(_epoch(pair) for pair in row["leader_epochs"].split(", ")),
                txn_index_empty=row["txn_index_empty"],
            )
            rlmm.add_remote_log_segment_metadata(segment)
            rlmm.update_remote_log_segment_metadata(sample_update(segment, FINISHED))
            self.log.tiering.note_remote_offset(segment.end_offset)
        return rlmm

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.reads.close()
        self.loop.close()

    def consume(self, *, is_committed_only: bool, max_bytes: int) -> list[list[Any]]:
        """Return the rows that a consumer sees from the beginning."""
        log, rows = self.log, []
        upper = log.last_stable_offset if is_committed_only else log.high_watermark
        offset = log.log_start_offset
        while offset < upper:
            if offset < log.local_log_start_offset:
                wanted = RemoteFetch(self.partition, offset, max_bytes, upper, True, is_committed_only)
                found = self.loop.run_until_complete(self.reads.fetch(wanted, 1000))
                data, aborted = joined(found.records), found.aborted or []
            else:
                data = log.read(offset, max_bytes=max_bytes, upper_offset=upper).read()
                aborted = [each[:2] for each in log.reads.aborted_transactions(offset, upper)]
            batches = _visible(data, aborted if is_committed_only else [])
            for header, records in batches:
                rows += [_row(record, header) for record in records if record.offset >= offset]
            offset = [header for _, header in iter_headers(data)][-1].next_offset
        return rows


def _epoch(pair: str) -> tuple[int, int]:
    epoch, _, start = pair.partition("=")
    return int(epoch), int(start)


def _visible(data: bytes, aborted: list[tuple[int, int]]) -> list[tuple[Any, list[Any]]]:
    """Return data batches without those of aborted transactions, as consumers filter them."""
    seen, waiting, dead = [], sorted(aborted, key=lambda each: each[1]), set()
    for position, header in iter_headers(data):
        while waiting and waiting[0][1] <= header.last_offset:
            dead.add(waiting.pop(0)[0])
        records = decode_records(data[position : position + header.size_in_bytes], header)
        if header.is_control:
            marker = parse_control_record(records[0])
            if marker is not None:
                dead.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dead):
            seen.append((header, records))
    return seen


def _row(record: Any, header: Any) -> list[Any]:
    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    return [record.offset, record.timestamp, text(record.key), text(record.value), header.partition_leader_epoch]


@pytest.mark.parametrize("max_bytes", [1, 1500, 1 << 20])
@pytest.mark.parametrize("opens_files", [True, False], ids=["files", "chunks"])
@pytest.mark.parametrize(("golden", "topic", "index"), PARTITIONS)
def test_consumers_see_what_kafka_shows_them(
    golden: str, topic: str, index: int, opens_files: bool, max_bytes: int
) -> None:
    with GoldenTier(golden, topic, index, opens_files=opens_files) as tier:
        for isolation in ("read_uncommitted", "read_committed"):
            found = tier.consume(is_committed_only=isolation == "read_committed", max_bytes=max_bytes)
            wanted = [[*row[:4], row[6]] for row in expected(golden)[isolation][topic][str(index)]]
            assert found == wanted


@pytest.mark.parametrize(("golden", "topic", "index"), PARTITIONS)
def test_offsets_are_those_that_kafka_lists(golden: str, topic: str, index: int) -> None:
    with GoldenTier(golden, topic, index, opens_files=True) as tier:
        reach = list_offsets._Reach(tier.log.high_watermark, is_settled=True)
        for name, timestamp in SPECS.items():
            search = list_offsets._Search(reach, 1000)
            lookup = list_offsets._lookup(tier.context, tier.partition, timestamp, search)
            found = tier.loop.run_until_complete(lookup)
            wanted = expected(golden)["list_offsets"][name][f"{topic}-{index}"]
            epoch = -1 if wanted["leader_epoch"] is None else wanted["leader_epoch"]
            assert (name, found) == (name, TimestampOffset(wanted["timestamp"], wanted["offset"], epoch))


def test_the_overlap_has_segments_in_both_places() -> None:
    with GoldenTier("overlap", "tiered-overlap", 0, opens_files=True) as tier:
        assert (tier.log.local_log_start_offset, tier.log.tiering.highest_remote_offset) == (106, 207)
