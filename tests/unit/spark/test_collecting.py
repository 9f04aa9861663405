"""tests/spark/test_killed_java.py has a Java that dies on the way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from crabka.spark.collecting import collect_rows


def test_rows_come_as_dictionaries() -> None:
    frame: Any = SimpleNamespace(toArrow=lambda: pa.table({"a": [1, None], "b": ["x", "y"]}))
    assert collect_rows(frame) == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
