"""The shape of most jobs: each task receives rows and returns a batch per row, and the driver collects all of them.

`DataFrame.collect` takes the end of a broken connection for the end of the rows. If Spark's Java dies while it sends
them, the rows so far would pass for all of them, and a commit of offsets for them would lose the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


ArrowTask = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""A function for mapInArrow."""


def for_each_row(answer: Callable[[dict[str, Any]], pa.RecordBatch]) -> ArrowTask:
    """Return the function for mapInArrow."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield answer(row)

    return run


def collect_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame. Raises what Spark raises, also if Java dies before the last of them."""
    # After the batches, toArrow requests their order from Java; a dead Java does not answer, which raises here.
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows
