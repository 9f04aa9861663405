from __future__ import annotations

import pytest

from crabka.log.recovery.segment_recovery import CHUNK_BYTES, batch_fault, checked_batches
from crabka.log.segment.segment import Segment
from tests.support.storage.small import LOG_PATH, make_batch, make_context


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


def fault(data: bytes, position: int = 0) -> str:
    context = make_context()
    context.fs.makedirs(LOG_PATH)
    file = context.fs.open(f"{LOG_PATH}/x", create=True)
    file.pwritev([data], 0)
    return batch_fault(file, position, len(data))


def test_what_is_wrong_with_a_batch_is_named() -> None:
    first, second = batches_of(5, 5)
    assert fault(first + second, len(first)) == ""
    assert fault(first + second[:20], len(first)) == "20 bytes are no whole batch header"
    assert fault(bytes(500)) == "a batch cannot have 0 bytes"
    assert fault(second[:-3]) == f"a batch of {len(second)} bytes of which only {len(second) - 3} are there"
    assert fault(second[:16] + b"\x01" + second[17:]) == "unknown batch format 1"
    assert fault(second[:-1] + b"\x55") == "the checksum (CRC-32C) of the batch at offset 1 does not match"
