"""Values that are JSON objects, parsed by Arrow, many at once.

Arrow parses a stream of objects and does not know rows: a value with two objects, or with half of one, would shift all
that follow. So each value is put into a list with its number, under a random name that no value contains, and the
numbers must come back in order. A block that cannot be parsed is parsed again without the rows that are clearly bad;
then its halves are tried, down to single rows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from crabka.spark.lake.values.inferred_fields import InferredFields
from crabka.spark.lake.values.json_checks import explain, misfits, too_deep
from crabka.spark.lake.values.schemas import FIRST_CALENDAR_DAY, conform_array, merge_fields
from crabka.spark.lake.values.value_modes import DecodedValues, rows_but

_NONCE = secrets.token_hex(16)
_NUMBER = pa.field(_NONCE, pa.int64())
_NOT_ONE = "not exactly one JSON object"
# Arrow counts the bytes of a block in 32 bits.
_MAX_BLOCK_BYTES = 1 << 30
_PLACE = re.compile(rf"Column\(/{_NONCE}(?:/\[\])?/?([^)]*)\)")
_ROW = re.compile(r" in row \d+")


@dataclass(frozen=True)
class JsonValues:
    """Decodes JSON objects into known fields; with `infers` it also reports which other fields there are."""

    fields: tuple[pa.Field, ...]
    infers: bool = False

    def with_fields(self, fields: Sequence[pa.Field]) -> JsonValues:
        """Return a decoder for more fields. Raises SchemaConflictError."""
        return JsonValues(tuple(merge_fields(self.fields, fields, "")), self.infers)

    def decode(self, values: pa.Array) -> DecodedValues:
        """Read the values of many rows."""
        block = _Block(self)
        structs = block.decode(values)
        column = pa.concat_arrays(structs) if structs else pa.array([], pa.struct(self.fields))
        # Fields below a null struct are whatever; `flatten` makes them null.
        columns = column.flatten() if self.fields else []
        return DecodedValues(columns, self.fields, sorted(block.bad), block.inferred.new)


class _BadBlockError(Exception):
    """Values were parsed, but not into what they should be."""


class _Block:
    """Decodes some values, and keeps bad rows and new fields."""

    def __init__(self, decoder: JsonValues) -> None:
        self._kind = pa.struct(decoder.fields)
        self._infers = decoder.infers
        # Fields that are found in some rows are expected of all that follow.
        self.inferred = InferredFields([*decoder.fields, _NUMBER])
        self.bad: list[tuple[int, str]] = []

    def decode(self, values: pa.Array) -> list[pa.Array]:
        """Return the structs of the good rows."""
        return self._without(too_deep(values), values, pa.array(range(len(values)), pa.int64()), None)

    def _without(
        self, bad: Sequence[tuple[int, str]], values: pa.Array, rows: pa.Array, judged: tuple[pa.Field, ...] | None
    ) -> list[pa.Array]:
        """Decode all values but for some; `rows` are their numbers, `judged` the fields they were compared with."""
        if bad:
            self.bad += [(rows[index].as_py(), reason) for index, reason in bad]
            kept = rows_but(len(values), bad)
            values, rows = values.take(kept), rows.take(kept)
        return self._decode(values, rows, judged)

    def _decode(self, values: pa.Array, rows: pa.Array, judged: tuple[pa.Field, ...] | None) -> list[pa.Array]:
        if len(values) == 0:
            return []
        try:
            return [self._parsed(values, rows)]
        except _BadBlockError as error:
            reason = str(error)
        except pa.ArrowInvalid as error:
            reason = _readable(str(error))
        if len(values) == 1:
            self.bad.append((rows[0].as_py(), explain(values[0].as_py(), self.inferred.fields) or reason))
            return []
        fields = self.inferred.fields
        if judged is not fields and values.nbytes <= _MAX_BLOCK_BYTES:
            bad = misfits(values, fields)
            if bad:
                return self._without(bad, values, rows, fields)
            judged = fields
        middle = len(values) // 2
        return self._decode(values.slice(0, middle), rows.slice(0, middle), judged) + self._decode(
            values.slice(middle), rows.slice(middle), judged
        )

    def _parsed(self, values: pa.Array, rows: pa.Array) -> pa.Array:
        """Return structs of the known fields. Raises ArrowInvalid or _BadBlockError if a value is no such object."""
        parsed = _parse(values, self.inferred.fields, infers=self._infers)
        structs = conform_array(parsed, self._kind)
        if not _read_type(self._kind).equals(self._kind) and _has_early_date(structs):
            raise _BadBlockError("a date before the year 1")
        refused: dict[int, str] = {}
        for refusal in self.inferred.look_at(parsed.type) if self._infers else ():
            for index in refusal.rows_in(parsed):
                refused.setdefault(index, refusal.reason)
        self.bad += [(rows[index].as_py(), reason) for index, reason in refused.items()]
        return structs.take(rows_but(len(values), list(refused.items()))) if refused else structs


def _parse(values: pa.Array, fields: Sequence[pa.Field], *, infers: bool) -> pa.Array:
    """Return one struct per value. Raises ArrowInvalid or _BadBlockError if a value is not one JSON object."""
    data = _wrapped(values.cast(pa.string()))
    if data.size > _MAX_BLOCK_BYTES and len(values) > 1:
        raise _BadBlockError("too large to be parsed at once")
    table = arrow_json.read_json(
        pa.BufferReader(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema([(_NONCE, pa.list_(_read_type(pa.struct(fields))))]),
            newlines_in_values=True,
            unexpected_field_behavior="infer" if infers else "ignore",
        ),
    )
    parsed = _unwrapped(table.column(_NONCE).combine_chunks(), len(values))
    if parsed.null_count != values.null_count:
        raise _BadBlockError("null is no JSON object")
    return parsed


def _read_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow parses a value into: dates as text, since it would take them for numbers of days."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_type(field.type)) for field in kind])
    return pa.list_(_read_type(kind.value_type)) if pa.types.is_list(kind) else kind


def _has_early_date(array: pa.Array) -> bool:
    """Return whether there is a date of the year 0, which Arrow reads and others do not."""
    if pa.types.is_date(array.type):
        first = pc.min(array.cast(pa.int32())).as_py()
        return first is not None and first < FIRST_CALENDAR_DAY
    if pa.types.is_struct(array.type):
        return any(_has_early_date(member) for member in array.flatten())
    return pa.types.is_list(array.type) and _has_early_date(array.flatten())


def _wrapped(values: pa.Array) -> pa.Buffer:
    """Return the text `{name: [value, {name: number}]}` of all values."""
    numbers = pa.array(range(len(values)), pa.int64()).cast(pa.string())
    end = pc.binary_join_element_wise(f',{{"{_NONCE}":', numbers, "}]}\n", "")
    wrapped = pc.binary_join_element_wise(f'{{"{_NONCE}":[', pc.fill_null(values, "null"), end, "")
    offsets = pa.Array.from_buffers(pa.int32(), len(wrapped) + 1, [None, wrapped.buffers()[1]])
    return wrapped.buffers()[2].slice(0, offsets[len(wrapped)].as_py())


def _unwrapped(lists: pa.Array, count: int) -> pa.Array:
    """Return the values of lists of two, a value and its number. Raises _BadBlockError for anything else."""
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    items = lists.flatten()
    aligned = len(lists) == count and len(items) == 2 * count
    if not aligned or not pc.all(pc.equal(pc.list_value_length(lists), 2)).as_py():
        raise _BadBlockError(_NOT_ONE)
    numbers = pc.struct_field(items, _NONCE).take(pa.array(range(1, 2 * count, 2), pa.int64()))
    if not numbers.equals(pa.array(range(count), pa.int64())):
        raise _BadBlockError(_NOT_ONE)
    return items.take(pa.array(range(0, 2 * count, 2), pa.int64()))


def _readable(message: str) -> str:
    text = _ROW.sub("", " ".join(message.split()))
    text = _PLACE.sub(lambda match: f"field {match[1] or 'value'}", text)
    return text[:300]
