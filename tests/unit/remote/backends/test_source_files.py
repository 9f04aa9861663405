from __future__ import annotations

import errno

import pytest

from crabka.remote.backends.source_files import index_sources, opened, pieces, read_source
from crabka.remote.segments import IndexType
from crabka.testing import MemoryFileSystem
from tests.support.tier_segments import write_segment


def test_all_that_accompanies_a_segment_is_named() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    read = {kind: read_source(fs, source) for kind, source in index_sources(segment.data).items()}
    assert read == {kind: content for kind, content in segment.contents.items() if kind is not None}


def test_a_missing_transaction_index_is_left_out() -> None:
    segment = write_segment(MemoryFileSystem(), "/local", aborted=False)
    assert set(index_sources(segment.data)) == set(IndexType) - {IndexType.TRANSACTION}


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 40])
def test_pieces_give_the_file_in_order(size: int) -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=bytes(range(size)))
    with opened(fs, segment.data.log_segment) as file:
        found = list(pieces(file, size, 10))
    assert b"".join(found) == segment.log
    assert [len(piece) for piece in found] == [min(10, size - start) for start in range(0, size, 10)]


def test_a_file_that_shrinks_while_it_is_read_is_an_error() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=b"0123456789")
    with opened(fs, segment.data.log_segment) as file, pytest.raises(OSError, match="ends before 15") as failure:
        list(pieces(file, 20, 5))
    assert failure.value.errno == errno.EIO


def test_a_file_is_closed_after_an_error() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    with pytest.raises(ValueError, match="stop"), opened(fs, segment.data.log_segment) as file:
        raise ValueError("stop")
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()
