"""The newest offset of each key in bounded memory."""

from __future__ import annotations

import random

from crabka.log.cleaner.offset_map import SLOT_BYTES, OffsetMap


def test_it_holds_the_newest_offset_of_each_key() -> None:
    rng, offsets, model = random.Random(1), OffsetMap(1 << 20, 0.9, 1000), {}
    for offset in range(1000):
        key = b"key-%d" % rng.randrange(300)
        assert offsets.put(key, offset)
        model[key] = offset
    assert {key: offsets.get(key) for key in model} == model
    assert len(offsets) == len(model)
    assert offsets.get(b"unknown") == -1


def test_offset_0_and_the_empty_key_are_known() -> None:
    offsets = OffsetMap(1000, 0.9, 2)
    assert offsets.put(b"", 0)
    assert offsets.get(b"") == 0


def test_a_full_map_takes_only_keys_that_it_has() -> None:
    offsets = OffsetMap(10 * SLOT_BYTES, 0.5, 1000)
    assert [offsets.put(b"%d" % number, number) for number in range(6)] == [True] * 5 + [False]
    assert offsets.put(b"3", 9)
    assert offsets.get(b"3") == 9
    assert offsets.get(b"5") == -1


def test_memory_is_bounded_by_the_setting_and_by_the_need() -> None:
    assert OffsetMap(1 << 27, 0.9, 1 << 40).memory_bytes <= 1 << 27
    assert OffsetMap(1 << 27, 0.9, 10).memory_bytes < 1000
    assert OffsetMap(1, 0.9, 10).capacity == 1


def test_every_slot_may_be_taken() -> None:
    offsets = OffsetMap(4 * SLOT_BYTES, 1.0, 1000)
    assert all(offsets.put(b"%d" % number, number) for number in range(4))
    assert not offsets.put(b"other", 4)
    assert offsets.get(b"other") == -1
