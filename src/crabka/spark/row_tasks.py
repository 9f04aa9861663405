"""Tasks that learn what to do from rows and answer each row with a batch: the shape of most jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


ArrowTask = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""A function for mapInArrow."""


def for_each_row(answer: Callable[[dict[str, Any]], pa.RecordBatch]) -> ArrowTask:
    """Return the function for mapInArrow."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield answer(row)

    return run
