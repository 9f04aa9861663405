"""Applies the option `where` to rows: a plan prunes only whole segments and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from crabka.spark.options.where import ComparisonOperator, Condition

_FUNCTIONS: Final = {
    ComparisonOperator.EQUAL: pc.equal,
    ComparisonOperator.NOT_EQUAL: pc.not_equal,
    ComparisonOperator.LESS: pc.less,
    ComparisonOperator.LESS_OR_EQUAL: pc.less_equal,
    ComparisonOperator.GREATER: pc.greater,
    ComparisonOperator.GREATER_OR_EQUAL: pc.greater_equal,
}


def columns_to_decode(columns: Sequence[str], where: Sequence[Condition]) -> tuple[str, ...]:
    """Return the wanted columns and, after them, those that only conditions need."""
    return tuple(dict.fromkeys([*columns, *(each.column for each in where)]))


def wanted_rows(batch: pa.RecordBatch, where: Sequence[Condition]) -> pa.RecordBatch:
    """Return the rows for which all conditions hold."""
    for each in where:
        batch = batch.filter(_mask(batch.column(each.column), each))
    return batch


def _mask(column: pa.Array, condition: Condition) -> pa.Array:
    # Wider than some columns, so that a constant may be larger than anything in them.
    kind = pa.int64() if pa.types.is_integer(column.type) else column.type
    constants = pa.array(condition.constants, kind)
    if condition.operator is ComparisonOperator.IN:
        return pc.is_in(column.cast(kind), constants)
    return _FUNCTIONS[condition.operator](column.cast(kind), constants[0])
