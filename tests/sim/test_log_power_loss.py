"""A log under random work and power cuts: nothing flushed is lost, nothing torn is served."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

import pytest

from crabka.config.topic import TopicConfig
from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.log.producers.producer_state import ProducerEntry, ProducerStateManager
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.recovery.replay import replay_batch
from crabka.log.segment.context import SegmentContext
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import BatchHeader
from crabka.testing import MemoryFileSystem
from tests.support.scale import scaled
from tests.support.storage.small import (
    LOG_DIR,
    LOG_PATH,
    NOW_MS,
    TOPIC_PARTITION,
    ProducerFields,
    make_batch,
    read_batches,
)

CONFIG = TopicConfig(internal_segment_bytes=3000, index_interval_bytes=200, retention_ms=-1, file_delete_delay_ms=0)
STEPS = 120
TRANSACTIONAL_ID = 3


class Written(NamedTuple):
    """A batch as the log must return it."""

    header: BatchHeader
    data: bytes


class World:
    """A log on a disk that may lose power, and what must be true of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.fs = MemoryFileSystem()
        self.fs.makedirs(LOG_DIR)
        self.fs.fsync_dir("/")
        # Everything that was ever appended and not truncated, also below the log start.
        self.written: list[Written] = []
        self.durable_end = 0
        # What the checkpoint files of the log dir hold.
        self.recovery_checkpoint = 0
        self.start_checkpoint = 0
        self.high_watermark_checkpoint = 0
        self.epoch = 0
        self.log = self._open(clean=True)

    def _open(self, *, clean: bool) -> PartitionLog:
        options = OpenOptions(
            clean=clean,
            recovery_point=self.recovery_checkpoint,
            log_start_offset=self.start_checkpoint,
            high_watermark=self.high_watermark_checkpoint,
            now_ms=NOW_MS,
            producer_id_expiration_ms=1 << 62,
        )
        return open_log(SegmentContext(self.fs), LOG_PATH, TOPIC_PARTITION, CONFIG, options)

    # -- work ------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        producer_id = self.rng.choice([-1, 1, 2, TRANSACTIONAL_ID])
        entry = self.log.producer_state.entries.get(producer_id)
        producer = None
        transactional = producer_id == TRANSACTIONAL_ID
        if producer_id >= 0:
            sequence = (entry.last_sequence + 1) if entry else 0
            producer = ProducerFields(producer_id, entry.producer_epoch if entry else 0, sequence)
        batch = make_batch(
            self.rng.randrange(1, 5),
            value_bytes=self.rng.randrange(300),
            timestamp=NOW_MS + self.rng.randrange(10_000),
            producer=producer,
            transactional=transactional,
        )
        self._append(batch, AppendOrigin.CLIENT)

    def end_transaction(self) -> None:
        entry = self.log.producer_state.entries.get(TRANSACTIONAL_ID)
        if entry is None or entry.current_txn_first_offset is None:
            return
        marker = EndTransactionMarker(committed=self.rng.random() < 0.5, coordinator_epoch=0)
        epoch = entry.producer_epoch + 1
        batch = build_end_transaction_batch(
            marker, producer_id=TRANSACTIONAL_ID, producer_epoch=epoch, timestamp=NOW_MS
        )
        self._append(batch, AppendOrigin.COORDINATOR)

    def _append(self, batch: bytes, origin: AppendOrigin) -> None:
        before = self.log.log_end_offset
        self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=NOW_MS, origin=origin)
        self.log.set_high_watermark(self.log.log_end_offset)
        ((header, data),) = read_batches(self.log, before)
        self.written.append(Written(header, data))

    def new_leader_epoch(self) -> None:
        self.epoch += 1

    def flush(self) -> None:
        self.log.flush()
        self.durable_end = self.log.log_end_offset

    def checkpoint(self) -> None:
        self.recovery_checkpoint = self.log.durability.checkpoint_recovery_point
        self.high_watermark_checkpoint = self.log.high_watermark
        self._checkpoint_start()

    def truncate(self) -> None:
        low = max(self.log.log_start_offset, self.log.log_end_offset - 20)
        offset = self.rng.randrange(low, self.log.log_end_offset + 1)
        if not self.log.truncation.truncate_to(offset, now_ms=NOW_MS):
            return
        self.written = [each for each in self.written if each.header.last_offset < offset]
        end = self.log.log_end_offset
        # Truncation inside a batch takes the whole batch.
        assert end <= offset or end == self.log.log_start_offset
        self.recovery_checkpoint = min(self.recovery_checkpoint, self.log.durability.checkpoint_recovery_point)
        self.durable_end = min(self.durable_end, end)

    def delete_records(self) -> None:
        start, stable = self.log.log_start_offset, self.log.last_stable_offset
        self.log.retention.delete_records_before(self.rng.randrange(start, stable + 1))
        self._checkpoint_start()
        self.log.retention.delete_below_log_start(NOW_MS)

    def retain(self) -> None:
        size = self.rng.randrange(3000, 12_000)
        self.log.update_config(replace(CONFIG, retention_bytes=size))
        if self.log.retention.expire(NOW_MS):
            self._checkpoint_start()
            self.log.retention.delete_below_log_start(NOW_MS)

    def _checkpoint_start(self) -> None:
        self.start_checkpoint = self.log.log_start_offset if self.log.durability.needs_start_checkpoint() else 0

    def restart(self) -> None:
        self.log.close(clean=True)
        self.checkpoint()
        self.recovery_checkpoint = self.durable_end = self.log.log_end_offset
        self.log = self._open(clean=True)
        assert self.log.log_end_offset == self.durable_end

    def crash(self) -> None:
        self.fs.crash(self.rng, block_bytes=self.rng.choice([64, 512, 4096]))
        self.log = self._open(clean=False)
        end = self.log.log_end_offset
        assert end >= self.durable_end, f"flushed up to {self.durable_end}, found {end}"
        self.written = [each for each in self.written if each.header.last_offset < end]
        self.log.set_high_watermark(end)
        # What survived unflushed may be lost again by the next crash, but not what was flushed.

    # -- truth -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        log = self.log
        expected = [each for each in self.written if each.header.last_offset >= log.local_log_start_offset]
        found = read_batches(log, log.log_start_offset, max_bytes=self.rng.choice([1, 500, 1 << 20]))
        assert [header.base_offset for header, _ in found] == [each.header.base_offset for each in expected]
        assert [data for _, data in found] == [each.data for each in expected]
        offset = log.log_start_offset
        for header, _ in found:
            assert header.base_offset <= offset <= header.last_offset or header.base_offset == offset
            offset = header.next_offset
        assert offset == log.log_end_offset
        self._check_producers()
        self._check_epochs(expected)

    def _check_producers(self) -> None:
        model = ProducerStateManager()
        for each in self.written:
            if each.header.producer_id >= 0:
                replay_batch(model, each.data, each.header)
        start, undecided = self.log.log_start_offset, model.first_undecided_offset
        # A lost marker may open a transaction again whose begin was deleted meanwhile; only its rest is known then.
        whole = undecided is None or undecided >= start
        for producer_id, entry in self.log.producer_state.entries.items():
            if self._in_log(producer_id) and (whole or producer_id != TRANSACTIONAL_ID):
                assert _essence(entry) == _essence(model.entries[producer_id])
        known = set(self.log.producer_state.entries)
        assert {producer_id for producer_id in model.entries if self._in_log(producer_id)} <= known
        assert not whole or self.log.producer_state.first_undecided_offset == undecided

    def _in_log(self, producer_id: int) -> bool:
        mine = [each.header for each in self.written if each.header.producer_id == producer_id]
        return bool(mine) and mine[-1].base_offset >= self.log.log_start_offset

    def _check_epochs(self, expected: list[Written]) -> None:
        for each in expected:
            offset = max(each.header.base_offset, self.log.log_start_offset)
            assert self.log.leader_epochs.lineage.epoch_at(offset) == each.header.partition_leader_epoch


def _essence(entry: ProducerEntry) -> tuple[int, int, int]:
    return entry.producer_epoch, entry.last_sequence, entry.txn_first_offset


@pytest.mark.parametrize("seed", range(scaled(40, 3000)))
def test_nothing_flushed_is_lost_and_nothing_torn_is_served(seed: int) -> None:
    world = World(seed)
    work = {
        world.append: 60,
        world.end_transaction: 10,
        world.flush: 6,
        world.checkpoint: 5,
        world.truncate: 3,
        world.delete_records: 3,
        world.retain: 3,
        world.new_leader_epoch: 2,
        world.restart: 2,
        world.crash: 5,
    }
    for _ in range(STEPS):
        (step,) = world.rng.choices(list(work), list(work.values()))
        step()
        world.check()
