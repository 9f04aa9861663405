"""Arrow columns out of walked records: buffers are filled by the compiled copies and wrapped, never built by value."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crabka.errors import require
from crabka.spark.decode.gather import copy_fields, mark_valid, measure
from crabka.spark.decode.kernels import (
    HEADER_FIELDS_OF_RECORD,
    HEADER_NAME_AT,
    HEADER_NAME_SIZE,
    HEADER_VALUE_AT,
    HEADER_VALUE_SIZE,
    Bytes,
    Numbers,
    walk_record_headers,
)
from crabka.spark.decode.schema import HEADER_TYPE, HEADERS_TYPE

_TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")


def binary_column(data: Bytes, positions: Numbers, sizes: Numbers, kind: pa.DataType) -> pa.Array:
    """Return the fields at these positions as binary or string column; a negative size means null."""
    count = len(sizes)
    offsets_buffer = pa.allocate_buffer(4 * (count + 1))
    offsets = np.frombuffer(offsets_buffer, np.int32)
    total, nulls = measure(sizes, offsets)
    values_buffer = pa.allocate_buffer(total)
    values: Bytes = np.frombuffer(values_buffer, np.uint8)
    require(copy_fields(data, positions, offsets, values), "a field lies outside its data")
    validity = _validity(sizes) if nulls else None
    return pa.Array.from_buffers(kind, count, [validity, offsets_buffer, values_buffer], nulls)


def int64_column(numbers: Numbers) -> pa.Array:
    """Return a copy of the numbers as column."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, _copied(numbers)], 0)


def timestamp_column(micros: Numbers) -> pa.Array:
    """Return a copy of microseconds since the epoch as column of timestamps."""
    return pa.Array.from_buffers(_TIMESTAMP_TYPE, len(micros), [None, _copied(micros)], 0)


def int32_column(numbers: Numbers) -> pa.Array:
    """Return the numbers as column of 32-bit ones."""
    return pa.array(numbers.astype(np.int32), pa.int32())


def headers_column(data: Bytes, positions: Numbers, counts: Numbers) -> pa.Array:
    """Return the headers of each row as list, null where there are none, as Spark's Kafka source has it."""
    total = int(counts.sum())
    if total == 0:
        return pa.nulls(len(counts), HEADERS_TYPE)
    headers: Numbers = np.empty((HEADER_FIELDS_OF_RECORD, total), np.int64)
    require(walk_record_headers(data, positions, counts, headers), "headers changed since they were checked")
    names = _readable(binary_column(data, headers[HEADER_NAME_AT], headers[HEADER_NAME_SIZE], pa.string()))
    values = binary_column(data, headers[HEADER_VALUE_AT], headers[HEADER_VALUE_SIZE], pa.binary())
    structs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
    offsets: Numbers = np.concatenate((np.zeros(1, np.int64), counts.cumsum()))
    return pa.Array.from_buffers(
        HEADERS_TYPE,
        len(counts),
        [_validity(counts - 1), pa.py_buffer(offsets.astype(np.int32))],
        int((counts == 0).sum()),
        children=[structs],
    )


def _readable(names: pa.StringArray) -> pa.StringArray:
    """Replace what is not UTF-8, as Java's readers do: Spark takes the bytes of a string as they are.

    Python sees each different name that is not ASCII once, and only if one of the names is broken.
    """
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        doubtful = pc.invert(pc.string_is_ascii(names))
        found = names.filter(doubtful).dictionary_encode()
        raw = found.dictionary.cast(pa.binary()).to_pylist()
        mended = pa.array([name.decode("utf-8", errors="replace") for name in raw], pa.string())
        return pc.replace_with_mask(names, doubtful, mended.take(found.indices))
    return names


def _validity(sizes: Numbers) -> pa.Buffer:
    bitmap: Bytes = np.zeros((len(sizes) + 7) // 8, np.uint8)
    mark_valid(sizes, bitmap)
    return pa.py_buffer(bitmap)


def _copied(numbers: Numbers) -> pa.Buffer:
    buffer = pa.allocate_buffer(numbers.nbytes)
    np.frombuffer(buffer, np.int64)[:] = numbers
    return buffer


class ConstantColumns:
    """Columns with the same value in each row: made once for the longest batch and cut for the others."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str | int, pa.DataType], pa.Array] = {}

    def column(self, value: str | int, kind: pa.DataType, count: int) -> pa.Array:
        """Return a column of `count` times the value."""
        column = self._columns.get((value, kind))
        if column is None or len(column) < count:
            self._columns.pop((value, kind), None)
            if len(self._columns) > _CONSTANTS_MAX:
                self._columns.clear()
            column = self._columns[value, kind] = pa.repeat(pa.scalar(value, kind), count)
        return column.slice(0, count)


_CONSTANTS_MAX: Final = 16
