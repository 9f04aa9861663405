from __future__ import annotations

import pytest

from crabka.errors import WireError
from crabka.protocol.wire import read_uvarint, skip_tagged_fields


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b"\0", 0), (b"\x7f", 127), (b"\x80\1", 128), (b"\xff\xff\xff\xff\x07", 2**31 - 1), (b"\x80\0", 0)],
)
def test_uvarint_is_read_and_the_tail_left(raw: bytes, value: int) -> None:
    assert read_uvarint(memoryview(b"x" + raw + b"tail"), 1) == (value, 1 + len(raw))


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(WireError, match="five bytes"):
        read_uvarint(memoryview(b"\xff\xff\xff\xff\xff\1"), 0)


def test_a_cut_varint_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_uvarint(memoryview(b"\xff\xff"), 0)


def test_tagged_fields_are_skipped() -> None:
    assert skip_tagged_fields(memoryview(b"\0rest"), 0) == 1
    assert skip_tagged_fields(memoryview(b"\2\0\3abc\5\0rest"), 0) == 8


def test_a_lying_number_of_tagged_fields_is_refused() -> None:
    with pytest.raises(WireError, match="tagged fields"):
        skip_tagged_fields(memoryview(b"\xff\xff\xff\xff\x0f\0\0"), 0)
