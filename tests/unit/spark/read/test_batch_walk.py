from __future__ import annotations

from crabka.spark.read.batch_walk import first_offsets_of, next_offset_of
from tests.support.tiers.planted import batches

LOG = batches(10, 3)


def test_the_offset_after_the_last_whole_batch_is_found() -> None:
    assert next_offset_of(LOG, 0) == 25
    assert next_offset_of(LOG[:-1], 0) == 20
    assert next_offset_of(memoryview(LOG)[:30], 7) == 7
    assert next_offset_of(b"", 7) == 7
    assert next_offset_of(LOG, 99) == 99


def test_a_length_that_makes_no_sense_ends_the_walk() -> None:
    assert next_offset_of(bytes(200), 3) == 3


def test_the_offsets_of_the_first_batch_are_known_if_it_is_whole() -> None:
    assert first_offsets_of(LOG) == (10, 14)
    assert first_offsets_of(LOG[: len(LOG) // 3]) == (10, 14)
    assert first_offsets_of(LOG[: len(LOG) // 3 - 1]) is None
    assert first_offsets_of(LOG[:20]) is None
    assert first_offsets_of(bytes(200)) is None
