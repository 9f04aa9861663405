"""The columns of a row, named and typed as Spark's own Kafka source has them.

Spark takes Arrow batches only with exactly these types: plain binary and string, microseconds in UTC, and lists whose
item is called "element".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))

_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}


def spark_schema_columns() -> tuple[str, ...]:
    """Return the names of all columns, in the order of Spark's Kafka source."""
    return tuple(_TYPES)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns, in their order.

    Raises ValueError for none, for an unknown one and for one that is named twice.
    """
    if not columns:
        raise ValueError("at least one column is needed")
    unknown = [name for name in columns if name not in _TYPES]
    if unknown:
        raise ValueError(f"no column {unknown[0]!r}: there are {', '.join(_TYPES)}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"a column is named twice: {', '.join(columns)}")
    return pa.schema([pa.field(name, _TYPES[name]) for name in columns])
