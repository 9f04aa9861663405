"""A copy of a log grows, follows what happens to the log, and survives power cuts."""

from __future__ import annotations

import random
import uuid

import pytest

from crabka.broker.logdirs.future_log import FutureLog
from crabka.config.topic import TopicConfig
from tests.support.moves.mirrors import COPY_PATH, TARGET_DIR, Mirror
from tests.support.storage.small import ProducerFields, append, make_batch


def filled(count: int = 40) -> Mirror:
    mirror = Mirror()
    for number in range(count):
        append(mirror.log, make_batch(1, producer=ProducerFields(1, 0, number)), leader_epoch=number // 10)
    return mirror


def test_a_copy_is_the_same_as_its_log() -> None:
    mirror = filled()
    assert mirror.copy.remaining_bytes == mirror.log.size_bytes
    assert mirror.copy.offset_lag == 40
    mirror.catch_up()
    assert (mirror.copy.remaining_bytes, mirror.copy.offset_lag) == (0, 0)
    assert mirror.copy.size_bytes == mirror.log.size_bytes
    mirror.assert_same()


def test_a_copy_of_a_copy_in_small_steps_ends_between_batches() -> None:
    mirror = Mirror(config=TopicConfig(segment_bytes=1 << 20, index_interval_bytes=200))
    for _ in range(30):
        append(mirror.log, make_batch(2))
    ends = []
    while mirror.step(300):
        ends.append(mirror.copy.end_offset)
    assert len(ends) > 5
    assert ends == sorted(ends)
    assert all(end % 2 == 0 for end in ends)
    mirror.sync()
    mirror.assert_same()


def test_a_batch_larger_than_a_step_goes_as_a_whole() -> None:
    mirror = Mirror(config=TopicConfig(segment_bytes=1 << 20))
    for _ in range(3):
        append(mirror.log, make_batch(1, value_bytes=5000))
    assert mirror.step(1000)
    assert mirror.copy.end_offset == 1
    mirror.catch_up(1000)
    mirror.assert_same()


def test_what_is_appended_and_rolled_meanwhile_comes_along() -> None:
    mirror = filled(5)
    mirror.catch_up()
    for number in range(5, 30):
        append(mirror.log, make_batch(1, producer=ProducerFields(1, 0, number)), leader_epoch=7)
        mirror.step()
    mirror.catch_up()
    mirror.assert_same()


def test_segments_that_retention_drops_go_from_the_copy() -> None:
    mirror = filled()
    mirror.catch_up()
    mirror.log.retention.delete_records_before(25)
    mirror.log.retention.delete_below_log_start(0)
    mirror.catch_up()
    mirror.assert_same()
    assert min(mirror.copy.mirrored) > 0


def test_a_copy_that_the_log_start_has_passed_begins_there() -> None:
    mirror = filled(8)
    mirror.step()
    append(mirror.log, make_batch(1, producer=ProducerFields(1, 0, 8)))
    mirror.log.roll(0)
    mirror.log.retention.delete_records_before(-1)
    mirror.log.retention.delete_below_log_start(0)
    mirror.catch_up()
    assert list(mirror.copy.mirrored) == [9]
    assert mirror.copy.offset_lag == 0
    mirror.assert_same()


@pytest.mark.parametrize("offset", [0, 3, 17, 39])
def test_a_truncation_cuts_the_copy_before_anything_else(offset: int) -> None:
    mirror = filled()
    mirror.catch_up()
    mirror.log.truncation.truncate_to(offset)
    assert mirror.copy.end_offset <= mirror.log.log_end_offset
    for number in range(mirror.log.log_end_offset, 45):
        append(mirror.log, make_batch(1, value_bytes=11, producer=ProducerFields(1, 0, number)), leader_epoch=9)
    assert mirror.copy.remaining_bytes > 0
    mirror.catch_up()
    mirror.assert_same()


def test_a_step_that_a_truncation_overtakes_does_not_count() -> None:
    mirror = filled(5)
    step = mirror.copy.next_step()
    assert step is not None
    step.run()
    mirror.log.truncation.truncate_to(2)
    append(mirror.log, make_batch(1, value_bytes=12, producer=ProducerFields(1, 0, 2)))
    mirror.copy.note(step)
    assert mirror.copy.size_bytes == 0
    mirror.catch_up()
    mirror.assert_same()


@pytest.mark.parametrize("seed", range(20))
def test_what_a_power_cut_leaves_is_compared_before_it_counts(seed: int) -> None:
    rng = random.Random(seed)
    mirror = filled()
    mirror.log.flush()
    for _ in range(rng.randrange(1, 12)):
        mirror.step()
    if rng.random() < 0.5:
        mirror.sync()
    for _ in range(rng.randrange(3)):
        mirror.step()
    mirror.memory.crash(rng, block_bytes=64)
    mirror.log.close(clean=False)
    again = Mirror(disk=mirror.memory)
    again.catch_up()
    again.assert_same()


def test_bytes_that_are_there_already_are_not_written_again() -> None:
    mirror = filled()
    mirror.catch_up()
    mirror.copy = mirror.new_copy()
    written = 0
    while (step := mirror.copy.next_step()) is not None:
        written += step.run() if type(step).__name__ == "CopyBytes" else step.run() * 0
        mirror.copy.note(step)
    assert written == 0


def test_bytes_that_were_just_copied_are_not_taken_for_foreign_ones() -> None:
    mirror = Mirror(config=TopicConfig(segment_bytes=1 << 20, index_interval_bytes=200))
    for _ in range(30):
        append(mirror.log, make_batch(2))
    while mirror.step(300):
        # Else each step would read both files and compare them.
        assert all(each.written == each.copied for each in mirror.copy.mirrored.values())


def test_a_copy_is_durable_when_it_is_synced() -> None:
    mirror = filled()
    mirror.catch_up()
    expected = mirror.files(COPY_PATH)
    mirror.memory.crash()
    assert mirror.files(COPY_PATH) == expected


def test_a_discarded_copy_has_a_name_that_says_so() -> None:
    mirror = filled()
    mirror.catch_up()
    doomed = mirror.copy.discard(uuid.UUID(int=4))
    mirror.memory.crash()
    assert mirror.memory.listdir(TARGET_DIR) == [doomed.rpartition("/")[2]]
    assert doomed.endswith("-delete")
    assert FutureLog(mirror.memory, mirror.log, COPY_PATH).discard(uuid.UUID(int=5)).endswith("-delete")
