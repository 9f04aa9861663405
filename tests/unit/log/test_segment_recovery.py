from __future__ import annotations

import pytest

from crabka.log.segment import Segment
from crabka.log.segment_recovery import CHUNK_BYTES, checked_batches
from tests.support.logs import LOG_PATH, make_batch, make_context


def checked(*batches: bytes) -> list[int]:
    """Return the base offsets of the batches that pass, in a file of these bytes."""
    context = make_context()
    context.fs.makedirs(LOG_PATH)
    segment = Segment(context, LOG_PATH, 0, sum(map(len, batches)))
    context.fs.open(segment.log_path, create=True).pwritev(batches, 0)
    return [header.base_offset for _, header, _ in checked_batches(context, segment)]


def batches_of(*sizes: int) -> list[bytes]:
    return [make_batch(value_bytes=size, base_offset=offset) for offset, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "sizes", [(), (5,), (10, 20, 30), (CHUNK_BYTES, 5, 2 * CHUNK_BYTES, 7), (CHUNK_BYTES - 100, 9, 9)]
)
def test_good_batches_of_all_sizes_pass(sizes: tuple[int, ...]) -> None:
    assert checked(*batches_of(*sizes)) == list(range(len(sizes)))


def test_every_flipped_byte_under_the_checksum_is_found() -> None:
    batches = batches_of(5, 5, 5)
    for position in range(16, len(batches[1])):
        damaged = bytearray(batches[1])
        damaged[position] ^= 0x10
        assert checked(batches[0], bytes(damaged), batches[2]) == [0], position


def test_every_cut_tail_is_found() -> None:
    first, second = batches_of(5, 5)
    for cut in range(1, len(second)):
        assert checked(first, second[:-cut]) == [0]


def test_zeros_are_no_batches() -> None:
    assert checked(*batches_of(5), bytes(500)) == [0]
