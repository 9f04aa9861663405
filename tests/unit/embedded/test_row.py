"""Records as a test writes them."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.embedded.row import Row, as_bytes, as_rows


def test_values_pairs_and_rows_become_rows() -> None:
    full = Row("v", key="k", headers={"h": b"1"}, partition=3, timestamp=7)
    assert as_rows([b"a", "ä", None, ("k", b"v"), full]) == [
        Row(b"a"),
        Row("ä".encode()),
        Row(None),
        Row(b"v", b"k"),
        full,
    ]
    assert as_rows(iter([])) == []
    assert [as_bytes(each) for each in (bytearray(b"x"), memoryview(b"y"))] == [b"x", b"y"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("abc", r"^rows are an iterable of records: give \['abc'\]$"),
        (Row("a"), r"^rows are an iterable of records"),
        ([1], r"^keys, values and headers are bytes, str or None, not a int: encode 1$"),
        ([{"a": 1}], r"not a dict: encode"),
        ([("a", "b", "c")], r"^a row is a value or a pair of key and value, not 3 items: \('a', 'b', 'c'\)$"),
    ],
)
def test_other_rows_are_refused_in_one_sentence(rows: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        as_rows(rows)
