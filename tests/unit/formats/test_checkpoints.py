from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import (
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
)
from crabka.ids import TopicPartition
from tests.support.recorded.files import GOLDEN


def test_offset_checkpoints_have_kafkas_text() -> None:
    offsets = {TopicPartition("orders", 0): 5, TopicPartition("a.b-c_d", 12): 1 << 40}
    data = b"0\n2\norders 0 5\na.b-c_d 12 1099511627776\n"
    assert encode_offsets(offsets) == data
    assert decode_offsets(data) == offsets


def test_kafkas_offset_checkpoint_reads_and_writes_back_equal() -> None:
    data = (GOLDEN / "single/d1/recovery-point-offset-checkpoint").read_bytes()
    assert encode_offsets(decode_offsets(data)) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no header"),
        (b"x\n0\n", "no header"),
        (b"\xff\n\xff\n", "not ASCII"),
        (b"1\n0\n", "its version is 1"),
        (b"0\n2\norders 0 5\n", "1 entries instead of 2"),
        (b"0\n1\norders 0\n", "without 3 words"),
        (b"0\n1\norders 0 many\n", "not a number"),
    ],
)
def test_malformed_checkpoints_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptDataError, match=f"^/checkpoint: .*{reason}"):
        decode_offsets(data, "/checkpoint")


def test_epochs_round_trip() -> None:
    assert encode_epochs([(0, 0), (2, 93)]) == b"0\n2\n0 0\n2 93\n"
    assert decode_epochs(b"0\n2\n0 0\n2 93\n") == [(0, 0), (2, 93)]


@pytest.mark.parametrize("entry", ["one 0", "0 -1", "1_0 5", "+1 5"])
def test_epochs_that_are_no_numbers_are_refused(entry: str) -> None:
    with pytest.raises(CorruptDataError, match="not a number"):
        decode_epochs(f"0\n1\n{entry}\n".encode())


def test_clean_shutdown_has_the_broker_epoch() -> None:
    assert encode_clean_shutdown(306) == b'{"version":0,"brokerEpoch":306}'
    assert decode_clean_shutdown(encode_clean_shutdown(306)) == 306
    assert decode_clean_shutdown(b"") == -1
