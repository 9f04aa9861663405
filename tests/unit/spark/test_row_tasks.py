from __future__ import annotations

from typing import Any

import pyarrow as pa

from crabka.spark.row_tasks import for_each_row


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
