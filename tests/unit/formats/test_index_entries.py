from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.index_entries import require_rising, whole_entries


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"", b""),
        (bytes(8), b""),
        (b"\0\0\0\1", b"\0\0\0\1"),
        (b"\0\0\0\1\1\0\0\0", b"\0\0\0\1\1\0\0\0"),
        (b"\0\0\0\0\1\0\0\0" + bytes(40), b"\0\0\0\0\1\0\0\0"),
    ],
)
def test_only_whole_entries_of_zeros_at_the_end_are_padding(data: bytes, kept: bytes) -> None:
    assert whole_entries(data, 4, "x") == kept


def test_a_cut_entry_is_refused() -> None:
    with pytest.raises(CorruptDataError, match=r"^x: its 7 bytes are no multiple of 4"):
        whole_entries(bytes(7), 4, "x")


def test_columns_rise() -> None:
    require_rising([], "x")
    require_rising([1, 2], "x")
    require_rising([1, 1, 2], "x", strictly=False)
    for column, strictly in (([1, 1], True), ([2, 1], False)):
        with pytest.raises(CorruptDataError, match=r"^x: its entries do not rise"):
            require_rising(column, "x", strictly=strictly)
