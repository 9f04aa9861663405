"""Values that are JSON objects, parsed by Arrow, many at once.

Arrow reads a stream of objects and knows no rows of ours: a value with two objects, or with half of one, would shift
all that follow. So each value travels in a list with its number, under a name that no value can know, and the numbers
must come back in order. If a block cannot be parsed its halves are tried, down to the rows that are bad.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from crabka.spark.lake.errors import SchemaConflictError
from crabka.spark.lake.schemas import merge_fields, plain_type
from crabka.spark.lake.value_modes import DecodedValues

_NONCE = secrets.token_hex(16)
_NOT_ONE = "not exactly one JSON object"
# Arrow counts the bytes of a block in 32 bits.
_MAX_BLOCK_BYTES = 1 << 30
_PLACE = re.compile(rf"Column\(/{_NONCE}(?:/\[\])?/?([^)]*)\)")
_ROW = re.compile(r" in row \d+")


@dataclass(frozen=True)
class JsonValues:
    """Decodes JSON objects into known fields; with `infers` it also tells which other fields there are."""

    fields: tuple[pa.Field, ...]
    infers: bool = False

    def with_fields(self, fields: Sequence[pa.Field]) -> JsonValues:
        """Return a decoder for more fields. Raises SchemaConflictError."""
        return JsonValues(tuple(merge_fields(self.fields, fields, "")), self.infers)

    def decode(self, values: pa.Array) -> DecodedValues:
        """Read the values of many rows."""
        found = _Found(self.fields)
        structs = self._decode(values, 0, found)
        column = pa.concat_arrays(structs) if structs else pa.array([], pa.struct(self.fields))
        # Fields below a null struct are whatever; `flatten` makes them null.
        columns = column.flatten() if self.fields else []
        return DecodedValues(columns, self.fields, found.bad, found.new_fields)

    def _decode(self, values: pa.Array, first: int, found: _Found) -> list[pa.Array]:
        """Return the structs of the good rows; `first` is the index of the first row."""
        if len(values) == 0:
            return []
        try:
            parsed = self._parse(values)
        except _MisalignedError as error:
            reason = str(error)
        except pa.ArrowInvalid as error:
            reason = _readable(str(error))
        else:
            if self.infers:
                found.look_at(parsed.type)
            return [_narrowed(parsed, self.fields)]
        if len(values) == 1:
            found.bad.append((first, reason))
            return []
        middle = len(values) // 2
        return self._decode(values.slice(0, middle), first, found) + self._decode(
            values.slice(middle), first + middle, found
        )

    def _parse(self, values: pa.Array) -> pa.Array:
        """Return one struct per value. Raises ArrowInvalid or _MisalignedError if a value is not one JSON object."""
        data = _wrapped(values.cast(pa.string()))
        if data.size > _MAX_BLOCK_BYTES and len(values) > 1:
            raise _MisalignedError("too large to be parsed at once")
        item = pa.struct([*self.fields, pa.field(_NONCE, pa.int64())])
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema([(_NONCE, pa.list_(item))]),
                newlines_in_values=True,
                unexpected_field_behavior="infer" if self.infers else "ignore",
            ),
        )
        parsed = _unwrapped(table.column(_NONCE).combine_chunks(), len(values))
        if parsed.null_count != values.null_count:
            raise _MisalignedError("null is no JSON object")
        return parsed


class _MisalignedError(Exception):
    """Values were parsed, but not into one object each."""


class _Found:
    """What was found besides rows."""

    def __init__(self, known: Sequence[pa.Field]) -> None:
        self._known = list(known)
        self.bad: list[tuple[int, str]] = []
        self.new_fields: list[pa.Field] = []

    def look_at(self, kind: pa.DataType) -> None:
        """Take note of fields that are new; of types that exclude each other the first stays."""
        for found in kind:
            if found.name == _NONCE:
                continue
            inferred = _inferred(found.type)
            if inferred is None:
                continue
            new = pa.field(found.name, inferred)
            try:
                merged = merge_fields(self._known, [new], "")
            except SchemaConflictError:
                continue
            if merged != self._known:
                self._known = merged
                self.new_fields = [field for field in self.new_fields if field.name != new.name]
                self.new_fields.append(next(field for field in merged if field.name == new.name))


def _inferred(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of a new column, None if nothing but nulls was seen.

    Text that looks like a time stays text: the next value need not.
    """
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_list(kind):
        item = _inferred(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(kind):
        members = [(field.name, _inferred(field.type)) for field in kind]
        known = [pa.field(name, member) for name, member in members if member is not None]
        return pa.struct(known) if known else None
    return plain_type(kind)


def _narrowed(parsed: pa.Array, fields: Sequence[pa.Field]) -> pa.Array:
    """Return structs with only the known fields, in their order."""
    from crabka.spark.lake.parquet_files import conform_array

    return conform_array(parsed, pa.struct(fields))


def _wrapped(values: pa.Array) -> pa.Buffer:
    """Return the text `{name: [value, {name: number}]}` of all values."""
    numbers = pa.array(range(len(values)), pa.int64()).cast(pa.string())
    end = pc.binary_join_element_wise(f',{{"{_NONCE}":', numbers, "}]}\n", "")
    wrapped = pc.binary_join_element_wise(f'{{"{_NONCE}":[', pc.fill_null(values, "null"), end, "")
    offsets = pa.Array.from_buffers(pa.int32(), len(wrapped) + 1, [None, wrapped.buffers()[1]])
    return wrapped.buffers()[2].slice(0, offsets[len(wrapped)].as_py())


def _unwrapped(lists: pa.Array, count: int) -> pa.Array:
    """Return the values of lists of two, a value and its number. Raises _MisalignedError for anything else."""
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    items = lists.flatten()
    aligned = len(lists) == count and len(items) == 2 * count
    if not aligned or not pc.all(pc.equal(pc.list_value_length(lists), 2)).as_py():
        raise _MisalignedError(_NOT_ONE)
    numbers = pc.struct_field(items, _NONCE).take(pa.array(range(1, 2 * count, 2), pa.int64()))
    if not numbers.equals(pa.array(range(count), pa.int64())):
        raise _MisalignedError(_NOT_ONE)
    return items.take(pa.array(range(0, 2 * count, 2), pa.int64()))


def _readable(message: str) -> str:
    text = _ROW.sub("", " ".join(message.split()))
    text = _PLACE.sub(lambda match: f"field {match[1] or 'value'}", text)
    return text[:300]
