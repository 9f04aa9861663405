"""Which batches may take the place of damaged ones."""

from __future__ import annotations

import pytest

from crabka.log.healing.damage import DamagedRange
from crabka.log.healing.mending import MendError, MendRules, fit, whole_batches
from tests.support.storage.small import make_batch

RULES = MendRules(lambda _offset: 3, is_compacted=False)
COMPACTED = RULES._replace(is_compacted=True)
GOOD = [make_batch(2, base_offset=10, leader_epoch=3), make_batch(3, base_offset=12, leader_epoch=3)]
DATA = b"".join(GOOD)
DAMAGED = DamagedRange(0, 500, 500 + len(DATA), 10, 15)


def flipped(position: int, data: bytes = DATA) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 4
    return bytes(changed)


def mended(old: bytes, fetched: bytes, rules: MendRules = RULES, damaged: DamagedRange = DAMAGED) -> bytes:
    return fit(damaged, old, whole_batches(damaged, fetched), rules)


def test_batches_that_fit_without_a_gap_are_taken_whatever_is_left_of_the_old_ones() -> None:
    before, after = make_batch(base_offset=9), make_batch(base_offset=15)
    assert mended(bytes(len(DATA)), before + DATA + after) == DATA


@pytest.mark.parametrize("position", [0, 9, 13, 16, 18, 60, len(GOOD[0]) + 70])
def test_a_compacted_log_takes_back_the_same_batches(position: int) -> None:
    first = DAMAGED._replace(end_position=500 + len(GOOD[0]), end_offset=12)
    if position < len(GOOD[0]):
        assert mended(flipped(position)[: len(GOOD[0])], GOOD[0], COMPACTED, first) == GOOD[0]
    else:
        assert mended(flipped(position), DATA, COMPACTED) == DATA


def test_a_compacted_log_takes_no_batch_that_may_be_another() -> None:
    with pytest.raises(MendError, match="not certainly"):
        mended(bytes(len(DATA)), DATA, COMPACTED)


@pytest.mark.parametrize(
    ("fetched", "reason"),
    [
        (GOOD[0], "bytes for"),
        (DATA[:-1], "bytes for"),
        (b"", "bytes for"),
        (flipped(70), "wrong checksum"),
        (GOOD[0] + make_batch(3, base_offset=12, leader_epoch=4), "leader epoch 4"),
        (GOOD[0] + make_batch(3, base_offset=11, leader_epoch=3), "offset 11"),
    ],
)
def test_what_does_not_fit_is_refused(fetched: bytes, reason: str) -> None:
    with pytest.raises(MendError, match=reason) as raised:
        mended(bytes(len(DATA)), fetched)
    assert raised.value.is_misfit == ("does not fit" in str(raised.value))


def test_without_a_known_epoch_only_the_same_batches_are_taken() -> None:
    rules = MendRules(lambda _offset: None, is_compacted=False)
    assert mended(flipped(70), DATA, rules) == DATA
    with pytest.raises(MendError, match="not certainly"):
        mended(bytes(len(DATA)), DATA, rules)
