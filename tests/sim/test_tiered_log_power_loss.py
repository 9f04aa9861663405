"""A tiered log under random work and power cuts in the middle of it: what is neither here nor in the tier is a loss.

The tier is a number here: everything below it was copied. What is checked is that the log never lets go of more, and
that it knows both its starts, its epochs and its producers again, whenever the power went.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import encode_snapshot
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.recovery.replay import replay_batch
from crabka.log.segment.context import SegmentContext
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import BatchHeader, parse_header
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
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
from tests.support.storage.tiered import EMPTY_SNAPSHOT, filled_log, tiered_config

CONFIG = tiered_config(internal_segment_bytes=3000, index_interval_bytes=200, file_delete_delay_ms=0)
STEPS = 150
TRANSACTIONAL_ID = 3


class _CutError(Exception):
    """The power went in the middle of a step."""


class StoredBatch(NamedTuple):
    """A batch of the partition, wherever it is stored."""

    header: BatchHeader
    data: bytes


class TieredWorld:
    """A log on a disk that may lose power, the tier behind it, and what must be true of both."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = MemoryFileSystem()
        self.disk.makedirs(LOG_DIR)
        self.disk.fsync_dir("/")
        self.fs = FaultyFileSystem(self.disk)
        # All batches of the partition from offset 0 on, as its leader has them.
        self.history: list[StoredBatch] = []
        # The tier holds everything below.
        self.tier_end = 0
        self.durable_end = 0
        # Starts that no crash may take back.
        self.durable_start = self.durable_local_start = 0
        self.recovery_checkpoint = self.start_checkpoint = self.high_watermark_checkpoint = 0
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
        if producer_id >= 0:
            sequence = (entry.last_sequence + 1) if entry else 0
            producer = ProducerFields(producer_id, entry.producer_epoch if entry else 0, sequence)
        batch = make_batch(
            self.rng.randrange(1, 5),
            value_bytes=self.rng.randrange(300),
            timestamp=NOW_MS + self.rng.randrange(10_000),
            producer=producer,
            transactional=producer_id == TRANSACTIONAL_ID,
        )
        self._append(batch, AppendOrigin.CLIENT)

    def end_transaction(self) -> None:
        entry = self.log.producer_state.entries.get(TRANSACTIONAL_ID)
        if entry is None or entry.current_txn_first_offset is None:
            return
        marker = EndTransactionMarker(committed=self.rng.random() < 0.5, coordinator_epoch=0)
        batch = build_end_transaction_batch(
            marker, producer_id=TRANSACTIONAL_ID, producer_epoch=entry.producer_epoch + 1, timestamp=NOW_MS
        )
        self._append(batch, AppendOrigin.COORDINATOR)

    def _append(self, batch: bytes, origin: AppendOrigin) -> None:
        before = self.log.log_end_offset
        self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=NOW_MS, origin=origin)
        self.log.set_high_watermark(self.log.log_end_offset)
        ((header, data),) = read_batches(self.log, before)
        self.history.append(StoredBatch(header, data))

    def new_leader_epoch(self) -> None:
        self.epoch += 1

    def flush(self) -> None:
        end = self.log.log_end_offset
        self.log.flush()
        self.durable_end = end

    def checkpoint(self) -> None:
        self.recovery_checkpoint = self.log.durability.checkpoint_recovery_point
        self.high_watermark_checkpoint = self.log.high_watermark
        self._checkpoint_start()

    def _checkpoint_start(self) -> None:
        assert self.log.durability.needs_start_checkpoint()
        self.start_checkpoint = self.durable_start = self.log.log_start_offset

    def truncate(self) -> None:
        # Committed records are never truncated, and only these are in the tier.
        low = max(self.tier_end, self.log.local_log_start_offset, self.log.log_end_offset - 20)
        offset = self.rng.randrange(low, self.log.log_end_offset + 1)
        self.log.truncation.announce(offset)
        self.recovery_checkpoint = min(self.recovery_checkpoint, self.log.durability.checkpoint_recovery_point)
        if self.log.truncation.truncate_to(offset, now_ms=NOW_MS):
            self.history = [each for each in self.history if each.header.last_offset < offset]
            # The cut may lie lower than it was announced, before the batch that holds the offset.
            self.recovery_checkpoint = min(self.recovery_checkpoint, self.log.durability.checkpoint_recovery_point)
            self.durable_end = min(self.durable_end, self.log.log_end_offset)

    def copy(self) -> None:
        for each in self.log.tiering.tierable_segments(self.tier_end, self.log.last_stable_offset, limit=2):
            if each.is_flushed:
                assert self.log.tiering.prepare_for_copy(each)
                self.tier_end = each.end_offset + 1
        self.log.tiering.note_remote_offset(self.tier_end - 1)

    def release(self) -> None:
        """Apply local retention as the owner of a log does."""
        limit = self.rng.choice([0, 3000, 6000])
        self.log.update_config(replace(CONFIG, local_retention_bytes=limit))
        if self.log.retention.may_drop_tiered(NOW_MS):
            self._checkpoint_start()
        while self.log.retention.drop_oldest_tiered(NOW_MS) is not None:
            self.log.retention.sync_names()
            self.durable_local_start = self.log.local_log_start_offset
        self.log.retention.roll_if_past_local_retention(NOW_MS)

    def expire_in_tier(self) -> None:
        start = self.log.log_start_offset
        offset = self.rng.randrange(start, max(start, min(self.tier_end, self.log.last_stable_offset)) + 1)
        self.log.retention.raise_log_start(offset)
        self._checkpoint_start()

    def delete_records(self) -> None:
        start, stable = self.log.log_start_offset, self.log.last_stable_offset
        self.log.retention.delete_records_before(self.rng.randrange(start, stable + 1))
        self._checkpoint_start()
        self.log.retention.delete_below_log_start(NOW_MS)

    def fall_behind(self) -> None:
        """Follow a leader that has tiered more than this log has."""
        undecided = self._producers().first_undecided_offset
        if undecided is not None:
            return
        self.epoch += 1
        offset = self.log.log_end_offset
        for _ in range(self.rng.randrange(1, 4)):
            batch = make_batch(self.rng.randrange(1, 5), base_offset=offset, leader_epoch=self.epoch)
            self.history.append(StoredBatch(parse_header(batch), batch))
            offset = parse_header(batch).next_offset
        self.tier_end = offset
        self.rebuild()

    def rebuild(self) -> None:
        snapshot = encode_snapshot(self._producers().entries.values())
        self.log.truncation.announce(0)
        self.recovery_checkpoint = self.log.durability.checkpoint_recovery_point
        self.durable_end = 0
        self.log.tiering.rebuild_from_remote(
            self.tier_end,
            log_start_offset=self.log.log_start_offset,
            epochs=self._epochs(),
            producer_snapshot=snapshot,
            now_ms=NOW_MS,
        )
        self.log.tiering.note_remote_offset(self.tier_end - 1)
        self.durable_end = self.durable_local_start = self.tier_end
        self.checkpoint()

    def restart(self) -> None:
        self.log.close(clean=True)
        self.checkpoint()
        self.recovery_checkpoint = self.durable_end = self.log.log_end_offset
        starts = self.log.log_start_offset, self.log.local_log_start_offset
        self.log = self._open(clean=True)
        assert (self.log.log_start_offset, self.log.local_log_start_offset) == starts
        assert self.log.log_end_offset == self.durable_end
        self.log.tiering.note_remote_offset(self.tier_end - 1)

    # -- power cuts ------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        self.disk.crash(self.rng, block_bytes=self.rng.choice([64, 512, 4096]))
        self.log = self._open(clean=False)
        end = self.log.log_end_offset
        assert end >= self.durable_end, f"flushed up to {self.durable_end}, found {end}"
        assert self.log.log_start_offset == self.durable_start
        assert self.log.local_log_start_offset >= min(self.durable_local_start, end)
        if end < self.tier_end:
            # The power went during a rebuild. Whatever is left is a part of the whole, and the next try follows.
            self._check_local()
            self.rebuild()
        else:
            self.history = [each for each in self.history if each.header.last_offset < end]
            self.log.tiering.note_remote_offset(self.tier_end - 1)
        self.log.set_high_watermark(self.log.log_end_offset)

    def interrupted(self, step: Callable[[], None]) -> None:
        """Take a step, and lose power somewhere in the middle of it if it touches the disk often enough."""

        def cut(_operation: str, _path: str) -> None:
            raise _CutError

        rule = FaultRule(before=cut, skip=self.rng.randrange(30))
        self.fs.add(rule)
        try:
            step()
        except _CutError:
            self.fs.remove(rule)
            self.crash()
        else:
            self.fs.remove(rule)

    # -- truth -----------------------------------------------------------------------------------------------------

    def _producers(self) -> ProducerStateManager:
        model = ProducerStateManager()
        for each in self.history:
            if each.header.producer_id >= 0:
                replay_batch(model, each.data, each.header)
        return model

    def _epochs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for each in self.history:
            if not found or found[-1][0] != each.header.partition_leader_epoch:
                found.append((each.header.partition_leader_epoch, each.header.base_offset))
        return found

    def check(self) -> None:
        log = self.log
        start, local_start = log.log_start_offset, log.local_log_start_offset
        assert start <= local_start <= log.high_watermark <= log.log_end_offset
        assert start <= log.last_stable_offset <= log.high_watermark
        assert start == local_start or local_start <= self.tier_end, "records are neither here nor in the tier"
        # A crash may take all records above the log start; the log begins there then.
        assert log.log_end_offset == max(self.history[-1].header.next_offset if self.history else 0, start)
        self._check_local()
        self._check_epochs()
        self._check_producers()

    def _check_local(self) -> None:
        log = self.log
        first, end = log.local_log_start_offset, log.log_end_offset
        wanted = [each for each in self.history if first < end and first <= each.header.last_offset < end]
        found = read_batches(log, first, max_bytes=self.rng.choice([1, 500, 1 << 20]))
        assert [header.base_offset for header, _ in found] == [each.header.base_offset for each in wanted]
        assert [data for _, data in found] == [each.data for each in wanted]

    def _check_epochs(self) -> None:
        for each in self.history:
            if each.header.last_offset >= self.log.log_start_offset:
                offset = max(each.header.base_offset, self.log.log_start_offset)
                assert self.log.leader_epochs.lineage.epoch_at(offset) == each.header.partition_leader_epoch

    def _check_producers(self) -> None:
        model, start = self._producers(), self.log.log_start_offset
        undecided = model.first_undecided_offset
        whole = undecided is None or undecided >= start
        for producer_id, wanted in model.entries.items():
            mine = [each.header for each in self.history if each.header.producer_id == producer_id]
            if mine[-1].base_offset >= start and (whole or producer_id != TRANSACTIONAL_ID):
                entry = self.log.producer_state.entries[producer_id]
                assert (entry.producer_epoch, entry.last_sequence) == (wanted.producer_epoch, wanted.last_sequence)
                assert entry.txn_first_offset == wanted.txn_first_offset


@pytest.mark.parametrize("seed", range(scaled(40, 3000)))
def test_what_is_not_in_the_tier_stays_here_whenever_the_power_goes(seed: int) -> None:
    world = TieredWorld(seed)
    work = {
        world.append: 70,
        world.end_transaction: 12,
        world.flush: 10,
        world.checkpoint: 5,
        world.copy: 10,
        world.release: 8,
        world.truncate: 3,
        world.expire_in_tier: 2,
        world.delete_records: 2,
        world.new_leader_epoch: 2,
        world.fall_behind: 1,
        world.restart: 2,
        world.crash: 3,
    }
    dangerous = (world.flush, world.release, world.delete_records, world.fall_behind)
    for _ in range(STEPS):
        (step,) = world.rng.choices(list(work), list(work.values()))
        if step in dangerous and world.rng.random() < 0.4:
            world.interrupted(step)
        else:
            step()
        world.check()


def _rebuild_with_power_cut(step: int, seed: int, *, announced: bool) -> PartitionLog | None:
    """Lose power before one of the steps of a rebuild at 50; return the log that is left, None behind the last step."""
    disk = MemoryFileSystem()
    disk.makedirs(LOG_DIR)
    disk.fsync_dir("/")
    fs = FaultyFileSystem(disk)
    log = filled_log(context=SegmentContext(fs))
    if announced:
        log.truncation.announce(0)
    recovery_point = log.durability.checkpoint_recovery_point

    def cut(_operation: str, _path: str) -> None:
        raise _CutError

    rule = FaultRule(before=cut, skip=step)
    fs.add(rule)
    try:
        log.tiering.rebuild_from_remote(
            50, log_start_offset=1, epochs=[(0, 0), (7, 20)], producer_snapshot=EMPTY_SNAPSHOT
        )
    except _CutError:
        disk.crash(random.Random(seed))
        options = OpenOptions(recovery_point=recovery_point, log_start_offset=0, now_ms=NOW_MS)
        return open_log(SegmentContext(disk), LOG_PATH, TOPIC_PARTITION, tiered_config(), options)
    return None


@pytest.mark.parametrize("announced", [True, False])
def test_a_rebuild_that_was_announced_leaves_no_hole_wherever_it_is_cut(announced: bool) -> None:
    holes = done = 0
    for seed in range(6):
        step = 0
        while (log := _rebuild_with_power_cut(step, seed, announced=announced)) is not None:
            step += 1
            if log.log_end_offset == 50:
                # The new log, never with the epochs or the records of the old one.
                done += 1
                holes += log.local_log_start_offset != 50 or log.leader_epochs.entries != [(0, 1), (7, 20)]
                continue
            found = [header.base_offset for header, _ in read_batches(log)]
            holes += found != list(range(log.local_log_start_offset, log.log_end_offset))
        assert step > 20
    assert done > 0
    assert (holes == 0) == announced
