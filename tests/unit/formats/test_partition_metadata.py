from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.partition_metadata import decode_partition_metadata, encode_partition_metadata
from crabka.ids import uuid_from_text
from tests.support.recorded.files import GOLDEN


def test_kafkas_file_round_trips() -> None:
    data = (GOLDEN / "single/d2/txn-0/partition.metadata").read_bytes()
    topic_id = decode_partition_metadata(data)
    assert topic_id == uuid_from_text("31g-x5UGSTipeknik-CmSg")
    assert encode_partition_metadata(topic_id) == data


@pytest.mark.parametrize("data", [b"version: 0", b"version: 1\ntopic_id: 31g-x5UGSTipeknik-CmSg", b"nonsense", b"\xff"])
def test_malformed_files_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_partition_metadata(data)
