from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from crabka.spark.session.row_tasks import collect_rows, for_each_row


def doubled(row: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"twice": [2 * row["number"]]})


def test_every_row_of_every_batch_is_answered_in_order() -> None:
    batches = [pa.RecordBatch.from_pydict({"number": numbers}) for numbers in ([1, 2], [], [3])]
    answers = [batch.to_pydict() for batch in for_each_row(doubled)(batches)]
    assert answers == [{"twice": [2]}, {"twice": [4]}, {"twice": [6]}]


def test_nothing_is_done_before_it_is_asked_for() -> None:
    done: list[int] = []

    def note(row: dict[str, Any]) -> pa.RecordBatch:
        done.append(row["number"])
        return doubled(row)

    answers = for_each_row(note)([pa.RecordBatch.from_pydict({"number": [1, 2]})])
    next(answers)
    assert done == [1]


def test_rows_come_as_dictionaries() -> None:
    frame: Any = SimpleNamespace(toArrow=lambda: pa.table({"a": [1, None], "b": ["x", "y"]}))
    assert collect_rows(frame) == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
