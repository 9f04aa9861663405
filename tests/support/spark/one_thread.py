"""As much of Spark as the jobs use, in the thread of its caller: for tests of what tasks do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa


class OneThreadFrame:
    """As much of a DataFrame as the job uses."""

    def __init__(self, rows: list[tuple[Any, ...]], schema: str) -> None:
        self._names = [part.split()[0] for part in schema.split(", ")]
        self._rows = rows

    def repartition(self, _count: int) -> OneThreadFrame:
        return self

    def mapInArrow(self, function: Callable[[Iterable[Any]], Iterator[Any]], _schema: str) -> OneThreadFrame:  # noqa: N802
        columns = dict(zip(self._names, map(list, zip(*self._rows, strict=True)), strict=True))
        self._out = list(function([pa.RecordBatch.from_pydict(columns)]))
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_batches(self._out)


class OneThreadSpark:
    def createDataFrame(self, rows: list[tuple[Any, ...]], schema: str) -> OneThreadFrame:  # noqa: N802
        return OneThreadFrame(rows, schema)
