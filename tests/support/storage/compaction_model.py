"""A compacted log under random work, with a model that says record by record what cleaning must leave of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from crabka.config.topic import TopicConfig
from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.ports import FileSystem
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.record import Record, decode_records
from crabka.testing import MemoryFileSystem
from tests.support.storage.cleaning import clean
from tests.support.storage.small import LOG_DIR, LOG_PATH, NOW_MS, TOPIC_PARTITION, read_batches

CONFIG = TopicConfig(
    cleanup_policy=frozenset({"compact"}),
    internal_segment_bytes=900,
    index_interval_bytes=150,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
)
PLAIN_PRODUCERS = (-1, 1)
TRANSACTIONAL_PRODUCERS = (7, 8)
ProducerFacts = dict[int, tuple[int, int, int]]


class KeyedRow(NamedTuple):
    """A record as it was written."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


class _Written(NamedTuple):
    row: KeyedRow
    batch_base: int
    # Number of the transaction, -1 without one.
    transaction: int


class CompactedLog:
    """The log, and what must be in it."""

    def __init__(self, rng: random.Random, fs: FileSystem | None = None) -> None:
        self.rng = rng
        self.memory = MemoryFileSystem()
        self.memory.makedirs(LOG_DIR)
        self.memory.fsync_dir("/")
        self.fs = fs or self.memory
        self.now_ms = NOW_MS
        self.clean_end = 0
        self.written: list[_Written] = []
        self.alive: dict[int, _Written] = {}
        self._horizons: dict[int, int] = {}
        self._open_transactions: dict[int, int] = {}
        self._first_offsets: dict[int, int] = {}
        self._aborted: set[int] = set()
        self._transaction_count = 0
        self._epochs: dict[int, int] = {}
        self.log = self.reopen()

    def reopen(self, recovery_point: int = 0, fs: FileSystem | None = None) -> PartitionLog:
        """Open the log as after a crash."""
        options = OpenOptions(
            clean=False, recovery_point=recovery_point, now_ms=self.now_ms, producer_id_expiration_ms=1 << 60
        )
        log = open_log(SegmentContext(fs or self.fs), LOG_PATH, TOPIC_PARTITION, CONFIG, options)
        log.set_high_watermark(log.log_end_offset)
        return log

    # -- work ------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        producer_id = self.rng.choice([*PLAIN_PRODUCERS, *TRANSACTIONAL_PRODUCERS])
        transactional = producer_id in TRANSACTIONAL_PRODUCERS
        entry = self.log.producer_state.entries.get(producer_id)
        epoch = self._epochs.setdefault(producer_id, 0)
        is_known = entry is not None and entry.producer_epoch == epoch and bool(entry.batches)
        records = [
            Record(0, self.now_ms - self.rng.randrange(50), self._key(), self._value())
            for _ in range(self.rng.randrange(1, 5))
        ]
        batch = build_batch(
            records,
            codec=self.rng.choice([0, 0, 1, 4]),
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=-1 if producer_id < 0 else (entry.last_sequence + 1 if entry and is_known else 0),
            transactional=transactional,
        )
        base = self._append(batch, AppendOrigin.CLIENT)
        if transactional and producer_id not in self._open_transactions:
            self._transaction_count += 1
            self._open_transactions[producer_id] = self._transaction_count
            self._first_offsets[self._transaction_count] = base
        transaction = self._open_transactions.get(producer_id, -1)
        for index, record in enumerate(records):
            row = KeyedRow(base + index, record.timestamp, record.key or b"", record.value)
            self.written.append(_Written(row, base, transaction))
            self.alive[row.offset] = self.written[-1]

    def end_transaction(self) -> None:
        if not self._open_transactions:
            return
        producer_id = self.rng.choice(sorted(self._open_transactions))
        transaction = self._open_transactions.pop(producer_id)
        committed = self.rng.random() < 0.5
        if not committed:
            self._aborted.add(transaction)
        # With transaction version 2 the marker bumps the epoch, with version 1 it does not.
        self._epochs[producer_id] += self.rng.randrange(2)
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
        batch = build_end_transaction_batch(
            marker, producer_id=producer_id, producer_epoch=self._epochs[producer_id], timestamp=self.now_ms
        )
        self._append(batch, AppendOrigin.COORDINATOR)

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def advance(self) -> None:
        self.now_ms += self.rng.choice([1, 500, 1000])

    def clean(self, map_bytes: int = 1 << 20) -> None:
        first_uncleanable = self._first_uncleanable()
        self.clean_end = clean(self.log, first_dirty=self.clean_end, now_ms=self.now_ms, map_bytes=map_bytes)
        if self.clean_end == first_uncleanable:
            self._clean_model(first_uncleanable)

    def _key(self) -> bytes:
        return b"key-%d" % self.rng.randrange(6)

    def _value(self) -> bytes | None:
        return None if self.rng.random() < 0.25 else bytes(self.rng.randrange(60))

    def _append(self, batch: bytes, origin: AppendOrigin) -> int:
        result = self.log.append_as_leader(batch, leader_epoch=0, now_ms=self.now_ms, origin=origin)
        self.log.set_high_watermark(self.log.log_end_offset)
        return result.first_offset

    # -- truth -----------------------------------------------------------------------------------------------------

    def _first_uncleanable(self) -> int:
        undecided = [self._first_offsets[each] for each in self._open_transactions.values()]
        limit = min(undecided, default=self.log.log_end_offset)
        return max([base for base in self.log.segment_base_offsets if base <= limit] + [self.clean_end])

    def _clean_model(self, end: int) -> None:
        newest: dict[bytes, int] = {}
        for each in self.written:
            if each.row.offset < end and each.transaction not in self._aborted:
                newest[each.row.key] = each.row.offset
        self.alive = {offset: each for offset, each in self.alive.items() if offset >= end or self._stays(each, newest)}
        for offset, each in self.alive.items():
            if offset < end and each.row.value is None:
                self._horizons.setdefault(each.batch_base, self.now_ms + CONFIG.delete_retention_ms)

    def _stays(self, each: _Written, newest: dict[bytes, int]) -> bool:
        if each.transaction in self._aborted or each.row.offset < newest[each.row.key]:
            return False
        return each.row.value is not None or self._horizons.get(each.batch_base, self.now_ms + 1) > self.now_ms

    def rows_alive(self) -> list[KeyedRow]:
        """The records that must be in the log."""
        return [each.row for each in self.alive.values()]

    def committed_alive(self) -> list[KeyedRow]:
        """The records that a read_committed consumer must get, as far as transactions are decided."""
        undecided = set(self._open_transactions.values())
        bad = self._aborted | undecided
        return [each.row for each in self.alive.values() if each.transaction not in bad]

    def check(self, log: PartitionLog | None = None) -> None:
        log = log or self.log
        rows = data_rows(log)
        assert rows == self.rows_alive()
        check_reads(log, rows)


def data_rows(log: PartitionLog) -> list[KeyedRow]:
    """All data records of a log."""
    return [row for rows in _rows_by_batch(log) for row in rows]


def _rows_by_batch(log: PartitionLog) -> Iterator[list[KeyedRow]]:
    for header, batch in read_batches(log):
        if not header.is_control:
            yield [KeyedRow(r.offset, r.timestamp, r.key or b"", r.value) for r in decode_records(batch, header)]


def committed_rows(log: PartitionLog) -> list[KeyedRow]:
    """What a read_committed consumer gets: it drops what the answer of the broker calls aborted."""
    end = log.last_stable_offset
    aborted = log.reads.aborted_transactions(log.log_start_offset, end)
    rows = []
    for header, batch in read_batches(log):
        hidden = header.is_transactional and any(
            entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
        if not header.is_control and not hidden:
            decoded = decode_records(batch, header)
            rows += [KeyedRow(r.offset, r.timestamp, r.key or b"", r.value) for r in decoded if r.offset < end]
    return rows


def check_reads(log: PartitionLog, rows: list[KeyedRow]) -> None:
    """Fetch from every offset, find by every time, and demand what a full scan finds."""
    headers = [header for header, _ in read_batches(log)]
    assert [header.base_offset for header in headers] == sorted({header.base_offset for header in headers})
    for offset in range(log.log_start_offset, log.log_end_offset):
        wanted = [header for header in headers if header.last_offset >= offset]
        found = [header for header, _ in read_batches(log, offset)] if wanted else []
        assert found == wanted
    stamped = [
        (record.timestamp, record.offset) for header, batch in read_batches(log) for record in decode_records(batch)
    ]
    for timestamp in {row.timestamp + delta for row in rows for delta in (0, 1)}:
        wanted_offset = next((offset for time, offset in stamped if time >= timestamp), None)
        answer = log.reads.offset_for_timestamp(timestamp)
        assert (answer.offset if answer else None) == wanted_offset


def producer_facts(log: PartitionLog) -> ProducerFacts:
    """Epoch, last sequence and open transaction of every producer."""
    return {
        producer_id: (entry.producer_epoch, entry.last_sequence, entry.txn_first_offset)
        for producer_id, entry in log.producer_state.entries.items()
    }


def work(world: CompactedLog, steps: int, *, cleaning: bool = True) -> Iterator[None]:
    """Do random steps; yields after each."""
    weights = {world.append: 50, world.end_transaction: 14, world.roll: 6, world.advance: 8}
    if cleaning:
        weights[world.clean] = 8
    for _ in range(steps):
        (step,) = world.rng.choices(list(weights), list(weights.values()))
        step()
        yield
