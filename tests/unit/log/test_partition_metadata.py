from __future__ import annotations

import uuid

import pytest

from crabka.errors import CorruptDataError
from crabka.ids import uuid_from_text
from crabka.log.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
    read_partition_metadata,
)
from crabka.testing import MemoryFileSystem
from crabka.vfs import write_atomic
from tests.support.golden import GOLDEN


def test_kafkas_file_round_trips() -> None:
    data = (GOLDEN / "single/d2/txn-0/partition.metadata").read_bytes()
    topic_id = decode_partition_metadata("path", data)
    assert topic_id == uuid_from_text("31g-x5UGSTipeknik-CmSg")
    assert encode_partition_metadata(topic_id) == data


@pytest.mark.parametrize("data", [b"version: 0", b"version: 1\ntopic_id: 31g-x5UGSTipeknik-CmSg", b"nonsense", b"\xff"])
def test_malformed_files_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_partition_metadata("path", data)


@pytest.mark.parametrize("left_by_a_power_cut", [b"", bytes(43)])
def test_a_missing_empty_or_zeroed_file_tells_nothing(left_by_a_power_cut: bytes) -> None:
    fs = MemoryFileSystem()
    assert read_partition_metadata(fs, "/partition.metadata") is None
    write_atomic(fs, "/partition.metadata", left_by_a_power_cut)
    assert read_partition_metadata(fs, "/partition.metadata") is None
    write_atomic(fs, "/partition.metadata", encode_partition_metadata(uuid.UUID(int=5)))
    assert read_partition_metadata(fs, "/partition.metadata") == uuid.UUID(int=5)
