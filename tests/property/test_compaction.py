"""Cleaning against a model: the latest value per key, order, tombstones, transactions; reads and producers unharmed."""

from __future__ import annotations

import random

from hypothesis import example, given
from hypothesis import strategies as st

from crabka.log.cleaner.offset_map import SLOT_BYTES
from tests.support.storage.compaction_model import (
    CompactedLog,
    check_reads,
    committed_rows,
    data_rows,
    producer_facts,
    work,
)

RANDOMS = st.randoms(use_true_random=False)


@given(RANDOMS, st.integers(5, 80))
def test_a_cleaned_log_holds_what_the_model_holds(rng: random.Random, steps: int) -> None:
    world = CompactedLog(rng)
    for _ in work(world, steps):
        assert data_rows(world.log) == world.rows_alive()
    world.clean()
    world.check()


@given(RANDOMS, st.integers(5, 80))
def test_a_consumer_of_committed_records_sees_no_aborted_one_and_misses_none(rng: random.Random, steps: int) -> None:
    world = CompactedLog(rng)
    for _ in work(world, steps):
        end = world.log.last_stable_offset
        assert committed_rows(world.log) == [row for row in world.committed_alive() if row.offset < end]


@given(RANDOMS, st.integers(5, 80))
@example(random.Random(343), 44)  # a producer of whom only an emptied marker is left
def test_a_cleaned_log_is_the_same_after_a_recovery_of_everything(rng: random.Random, steps: int) -> None:
    world = CompactedLog(rng)
    for _ in work(world, steps):
        pass
    world.clean()
    before = producer_facts(world.log)
    world.log.close(clean=False)
    world.log = world.reopen(recovery_point=0)
    world.check()
    assert producer_facts(world.log) == before
    end = world.log.last_stable_offset
    assert committed_rows(world.log) == [row for row in world.committed_alive() if row.offset < end]


@given(RANDOMS, st.integers(20, 80), st.integers(4, 8))
def test_little_memory_needs_more_rounds_for_the_same_result(rng: random.Random, steps: int, slots: int) -> None:
    world = CompactedLog(rng)
    for _ in work(world, steps, cleaning=False):
        pass
    world.advance()
    end = -1
    while end < world.clean_end:
        end = world.clean_end
        world.clean(map_bytes=slots * SLOT_BYTES)
        rows = data_rows(world.log)
        check_reads(world.log, rows)
        newest = {row.key: row for row in world.committed_alive() if row.offset < world.log.last_stable_offset}
        kept = {row.key: row for row in rows if row in set(newest.values())}
        assert kept == newest
    world.clean()
    assert data_rows(world.log) == world.rows_alive()
