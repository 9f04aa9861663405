"""Columns of a table: those that come from the log, those that come from values, and how both may grow.

Pure. Columns of the log begin with `kafka_`, so that a field of a value seldom meets one. A table's columns keep their
types for ever; what is added is added as nullable, also inside structs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from crabka.spark.lake.errors import SchemaConflictError

DATE = "kafka_date"
OFFSET = "kafka_offset"
PARTITION = "kafka_partition"
TIMESTAMP = "kafka_timestamp"
REASON = "reason"
# The years 1 to 9999, which is what formats and their readers agree on.
FIRST_CALENDAR_US = -62_135_596_800_000_000
LAST_CALENDAR_US = 253_402_300_799_999_999
FIRST_CALENDAR_DAY = -719_162
LAST_CALENDAR_DAY = 2_932_896
RAW_VALUE = "value"

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

LOG_COLUMNS = pa.schema(
    [
        pa.field("kafka_key", pa.binary()),
        pa.field("kafka_topic", pa.string()),
        pa.field("kafka_topic_id", pa.string()),
        pa.field(PARTITION, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TIMESTAMP, pa.timestamp("us", tz="UTC")),
        pa.field("kafka_timestamp_type", pa.int32()),
        pa.field("kafka_headers", HEADERS_TYPE),
    ]
)
DATE_FIELD = pa.field(DATE, pa.date32())
RAW_VALUE_FIELD = pa.field(RAW_VALUE, pa.binary())
REASON_FIELD = pa.field(REASON, pa.string())

# What an existing column takes without a loss: narrower types of the same kind.
_WIDENS_TO = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


def table_schema(values: Sequence[pa.Field], *, with_date: bool) -> pa.Schema:
    """Return the columns of a table whose values have these fields. Raises SchemaConflictError for names used twice."""
    fields = [*LOG_COLUMNS, *([DATE_FIELD] if with_date else []), *values]
    _require_distinct(fields, "")
    return pa.schema(fields)


def _require_distinct(fields: Iterable[pa.Field], where: str) -> None:
    names = Counter(field.name.lower() for field in fields)
    twice = [where + name for name, count in names.items() if count > 1]
    if twice:
        raise SchemaConflictError(f"Columns have the same name but for case: {', '.join(sorted(twice))}")
    for field in fields:
        kind = field.type
        while pa.types.is_list(kind) or pa.types.is_map(kind):
            kind = kind.value_type if pa.types.is_list(kind) else kind.item_type
        if pa.types.is_struct(kind):
            _require_distinct(kind, f"{where}{field.name}.")


def dead_letter_schema() -> pa.Schema:
    """Return the columns of the table of rows whose values could not be read."""
    return table_schema([RAW_VALUE_FIELD, REASON_FIELD], with_date=False)


def merge_schemas(current: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """Return `current` with what `wanted` has beyond it, at the end. Raises SchemaConflictError."""
    return pa.schema(merge_fields(list(current), list(wanted), ""))


def merge_fields(current: Sequence[pa.Field], wanted: Sequence[pa.Field], where: str) -> list[pa.Field]:
    """Return the fields of two lists, the first one's types and order winning. Raises SchemaConflictError."""
    merged = {field.name: field for field in current}
    known = {name.lower(): name for name in merged}
    for field in wanted:
        name = known.get(field.name.lower())
        if name is None:
            merged[field.name] = pa.field(field.name, field.type)
            known[field.name.lower()] = field.name
        elif name != field.name:
            raise SchemaConflictError(f"The columns {where}{name} and {where}{field.name} differ only in case")
        else:
            kind = _merge_types(merged[name].type, field.type, f"{where}{name}")
            merged[name] = pa.field(name, kind)
    return list(merged.values())


def _merge_types(current: pa.DataType, wanted: pa.DataType, where: str) -> pa.DataType:
    if current.equals(wanted) or current in _WIDENS_TO.get(wanted, ()):
        return current
    if pa.types.is_struct(current) and pa.types.is_struct(wanted):
        return pa.struct(merge_fields(list(current), list(wanted), f"{where}."))
    if pa.types.is_list(current) and pa.types.is_list(wanted):
        return pa.list_(_merge_types(current.value_type, wanted.value_type, f"{where}[]"))
    if pa.types.is_map(current) and pa.types.is_map(wanted) and current.key_type.equals(wanted.key_type):
        return pa.map_(current.key_type, _merge_types(current.item_type, wanted.item_type, f"{where}{{}}"))
    raise SchemaConflictError(f"The column {where} is {current} in the table and cannot become {wanted}")


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema as a table format has it in the types that Crabka uses, all nullable and without metadata."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without the variants that differ only in how memory is laid out."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    return kind


def added_fields(current: pa.Schema, merged: pa.Schema) -> list[pa.Field]:
    """Return the top columns of `merged` that `current` lacks or has with fewer fields inside."""
    known = {field.name: field.type for field in current}
    return [field for field in merged if field.name not in known or not known[field.name].equals(field.type)]


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of an older schema in a newer one: columns by name, nulls for what was not there, also in structs."""
    arrays = [
        pa.nulls(batch.num_rows, column.type)
        if batch.schema.get_field_index(column.name) < 0
        else conform_array(batch.column(column.name), column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conform_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return an array in a type that has more fields, or fewer, inside its structs."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        # By index: a name that begins with a dot or a bracket would be taken for a path.
        places = {field.name: index for index, field in enumerate(array.type)}
        children = [
            conform_array(pc.struct_field(array, [places[field.name]]), field.type)
            if field.name in places
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(wanted) and pa.types.is_list(array.type):
        # `flatten` leaves out what is below null lists, which the offsets must then do as well.
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        items = conform_array(array.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=array.is_null())
    return array.cast(wanted)
