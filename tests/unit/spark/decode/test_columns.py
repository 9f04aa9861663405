"""Arrow columns are sound and say what was stored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from crabka.errors import InvariantError
from crabka.records.varint import encode_varint
from crabka.spark.decode.columns import (
    ConstantColumns,
    binary_column,
    headers_column,
    int32_column,
    int64_column,
    timestamp_column,
)
from crabka.spark.decode.schema import HEADERS_TYPE


def numbers(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def as_bytes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def test_binary_columns_know_nulls_and_empty_fields() -> None:
    column = binary_column(as_bytes(b"helloworld"), numbers(5, 0, 3, 0), numbers(5, -1, 0, 5), pa.binary())
    column.validate(full=True)
    assert column.null_count == 1
    assert column.to_pylist() == [b"world", None, b"", b"hello"]


def test_a_field_outside_the_data_is_our_own_mistake() -> None:
    with pytest.raises(InvariantError):
        binary_column(as_bytes(b"hello"), numbers(3), numbers(3), pa.binary())


def test_numbers_are_copied() -> None:
    scratch = numbers(1, 2, 3)
    columns = [int64_column(scratch[1:]), timestamp_column(scratch[1:]), int32_column(scratch[1:])]
    scratch[:] = 0
    for column in columns:
        column.validate(full=True)
    assert columns[0].to_pylist() == [2, 3]
    assert columns[1].cast(pa.int64()).to_pylist() == [2, 3]
    assert columns[2].to_pylist() == [2, 3]


def stored(*fields: bytes | None) -> bytes:
    return b"".join(encode_varint(-1) if field is None else encode_varint(len(field)) + field for field in fields)


def test_headers_are_null_where_there_are_none() -> None:
    data = stored(b"a", b"1", b"a", None) + stored(b"", b"")
    column = headers_column(as_bytes(data), numbers(0, 0, 7), numbers(2, 0, 1))
    column.validate(full=True)
    assert column.type == HEADERS_TYPE
    assert column.to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        None,
        [{"key": "", "value": b""}],
    ]


def test_a_column_without_any_header_is_null() -> None:
    column = headers_column(as_bytes(b""), numbers(0, 0), numbers(0, 0))
    assert column.type == HEADERS_TYPE
    assert column.to_pylist() == [None, None]


def test_header_names_that_are_no_text_are_mended() -> None:
    column = headers_column(as_bytes(stored(b"gr\xc3\xbc\xc3n", b"\xff")), numbers(0), numbers(1))
    column.validate(full=True)
    assert column.to_pylist() == [[{"key": "gr\u00fc\ufffdn", "value": b"\xff"}]]


def test_names_beside_one_that_is_no_text_stay_as_they_are() -> None:
    names = [b"plain", b"gr\xc3\xbcn", b"\xff", b"", b"gr\xc3\xbcn", b"a\xe2\x82", b"\xff"]
    data = stored(*[field for name in names for field in (name, None)])
    column = headers_column(as_bytes(data), numbers(0), numbers(len(names)))
    column.validate(full=True)
    assert [header["key"] for header in column.to_pylist()[0]] == [name.decode(errors="replace") for name in names]


def test_python_sees_only_names_that_may_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    build = pa.array

    def noting(values: list[str], kind: pa.DataType) -> pa.Array:
        seen.append(len(values))
        return build(values, kind)

    monkeypatch.setattr(pa, "array", noting)
    data = stored(*[field for name in [b"plain"] * 1_000 + [b"\xff"] * 1_000 for field in (name, b"")])
    headers_column(as_bytes(data), numbers(0), numbers(2_000))
    assert seen == [1]


def test_constants_are_made_once_and_cut() -> None:
    constants = ConstantColumns()
    long = constants.column("orders", pa.string(), 1_000)
    short = constants.column("orders", pa.string(), 10)
    assert short.to_pylist() == ["orders"] * 10
    assert short.buffers()[2].address == long.buffers()[2].address
    assert constants.column("orders", pa.string(), 1_001).to_pylist() == ["orders"] * 1_001
    assert constants.column(3, pa.int32(), 2).type == pa.int32()


def test_constants_of_many_topics_do_not_pile_up() -> None:
    constants = ConstantColumns()
    for index in range(1_000):
        constants.column(f"topic-{index}", pa.string(), 1)
    assert len(constants._columns) < 100
