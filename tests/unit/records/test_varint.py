"""Zigzag varints: known encodings and limits."""

from __future__ import annotations

import pytest

from crabka.records.errors import CorruptBatchError
from crabka.records.varint import decode_varint, decode_varlong, encode_varint, varint_size


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_known_values(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)
    assert varint_size(value) == len(encoded) // 2


def test_varlong_reads_the_full_64_bit_range() -> None:
    for value in (2**63 - 1, -(2**63)):
        assert decode_varlong(b"?" + encode_varint(value), 1) == (value, 1 + varint_size(value))


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffffff01", "feffffff1f"])
def test_cut_or_overlong_varint_is_refused(encoded: str) -> None:
    with pytest.raises(CorruptBatchError):
        decode_varint(bytes.fromhex(encoded), 0)


def test_overlong_varlong_is_refused() -> None:
    with pytest.raises(CorruptBatchError):
        decode_varlong(b"\x80" * 10 + b"\x01", 0)
