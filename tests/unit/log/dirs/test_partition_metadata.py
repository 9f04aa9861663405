from __future__ import annotations

import uuid

import pytest

from crabka.formats.partition_metadata import encode_partition_metadata
from crabka.log.dirs.partition_metadata import read_partition_metadata
from crabka.testing import MemoryFileSystem
from crabka.vfs import write_atomic


@pytest.mark.parametrize("left_by_a_power_cut", [b"", bytes(43)])
def test_a_missing_empty_or_zeroed_file_holds_nothing(left_by_a_power_cut: bytes) -> None:
    fs = MemoryFileSystem()
    assert read_partition_metadata(fs, "/partition.metadata") is None
    write_atomic(fs, "/partition.metadata", left_by_a_power_cut)
    assert read_partition_metadata(fs, "/partition.metadata") is None
    write_atomic(fs, "/partition.metadata", encode_partition_metadata(uuid.UUID(int=5)))
    assert read_partition_metadata(fs, "/partition.metadata") == uuid.UUID(int=5)
