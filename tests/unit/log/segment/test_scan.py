from __future__ import annotations

import pytest

from crabka.log.segment.scan import CHUNK_BYTES, find_batch, scan_headers
from crabka.ports import File
from crabka.testing import MemoryFileSystem
from tests.support.storage.small import make_batch


def file_with(*batches: bytes) -> File:
    file = MemoryFileSystem().open("/log", create=True)
    file.pwritev(batches, 0)
    return file


def batches_of(*sizes: int) -> list[bytes]:
    """Return batches of one record each, at offsets 0, 1, ..."""
    return [make_batch(value_bytes=size, base_offset=offset) for offset, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "sizes", [(), (10,), (10, 20, 30), (CHUNK_BYTES, 5, 2 * CHUNK_BYTES, 7), (CHUNK_BYTES - 100, 30, 30)]
)
def test_all_batches_are_found(sizes: tuple[int, ...]) -> None:
    batches = batches_of(*sizes)
    file = file_with(*batches)
    found = list(scan_headers(file, 0, file.size()))
    assert [header.base_offset for _, header in found] == list(range(len(sizes)))
    assert [position for position, _ in found] == [sum(map(len, batches[:i])) for i in range(len(sizes))]


def test_a_scan_stops_before_a_batch_that_is_cut_off() -> None:
    batches = batches_of(10, 10)
    file = file_with(*batches)
    for cut in range(1, len(batches[1])):
        assert len(list(scan_headers(file, 0, file.size() - cut))) == 1


def test_a_scan_stops_at_zeros_and_garbage() -> None:
    for tail in (bytes(200), b"\xff" * 200):
        file = file_with(*batches_of(10), tail)
        assert len(list(scan_headers(file, 0, file.size()))) == 1


def test_a_batch_is_found_by_offset() -> None:
    batches = [make_batch(3, base_offset=0), make_batch(2, base_offset=5), make_batch(1, base_offset=7)]
    file = file_with(*batches)
    for offset, index in ((0, 0), (2, 0), (3, 1), (6, 1), (7, 2)):
        found = find_batch(file.pread, 0, file.size(), offset)
        assert found is not None
        assert found[0] == sum(map(len, batches[:index]))
    assert find_batch(file.pread, 0, file.size(), 8) == (file.size(), None)


def test_a_search_that_would_wait_says_so() -> None:
    file = file_with(*batches_of(10, 10))
    assert find_batch(lambda _length, _position: None, 0, file.size(), 1) is None


@pytest.mark.parametrize("position", [1, 50, len(make_batch()) + 3, 2 * len(make_batch())])
def test_a_wrong_position_makes_the_search_start_over(position: int) -> None:
    batches = [make_batch(base_offset=offset) for offset in range(4)]
    file = file_with(*batches)
    found = find_batch(file.pread, position, file.size(), 1)
    assert found is not None
    assert found[0] == len(batches[0])
