"""Record batches to Arrow: what the source, the lake jobs and the audit read stored segments with.

Whole runs of batches are turned into Arrow columns by compiled kernels; no Python object is made per record.

Reading order:

- `decoder` is the entry: bytes in, Arrow batches out; `places` and `schema` have its values, `errors` its error.
- `batches` finds the batches with rows to give, checks them, and drops control batches and aborted ones (`aborted`).
- `groups` brings the records of several batches into one buffer, decompressed by `codecs`.
- `kernels` walks headers and records, `gather` copies fields, `columns` wraps them as Arrow columns.
- `jit` compiles and caches the kernels; `warm` loads them ahead.

Invariants:

- No offset, size or count of the bytes is used before it is checked; memory is bounded by the limits of the decoder.
- A batch gives all of its wanted rows or, if it is corrupt, none.
- Importing this package imports neither numba nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.decode.aborted import AbortedTransactions
    from crabka.spark.decode.decoder import BatchDecoder
    from crabka.spark.decode.errors import CorruptBatch
    from crabka.spark.decode.places import BatchBounds, Origin, RowRange
    from crabka.spark.decode.schema import arrow_schema, spark_schema_columns
    from crabka.spark.decode.warm import warm_up

__all__ = [
    "AbortedTransactions",
    "BatchBounds",
    "BatchDecoder",
    "CorruptBatch",
    "Origin",
    "RowRange",
    "arrow_schema",
    "spark_schema_columns",
    "warm_up",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "aborted": ["AbortedTransactions"],
        "decoder": ["BatchDecoder"],
        "errors": ["CorruptBatch"],
        "places": ["BatchBounds", "Origin", "RowRange"],
        "schema": ["arrow_schema", "spark_schema_columns"],
        "warm": ["warm_up"],
    },
)
