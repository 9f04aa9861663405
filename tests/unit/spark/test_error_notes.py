from __future__ import annotations

import sys
import traceback
from types import ModuleType

import pytest

from crabka.spark.error_notes import add_error_notes, sentence_of

PLANNING = """[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: Traceback (most recent \
call last):
  File "worker.py", line 7, in main
ValueError: another one
  File "planner.py", line 30, in plan_read
crabka.spark.plan.divergence.LogCutError: the log of t-0 was cut: so it is
 SQLSTATE: 38000"""


def test_the_sentence_is_that_of_our_error() -> None:
    assert sentence_of(PLANNING) == "the log of t-0 was cut: so it is"
    assert sentence_of("ValueError: x\n crabka is a broker: yes") is None
    assert sentence_of("crabka.errors.ConfigError: first\ncrabka.errors.ConfigError: second\n+- plan") == "second"


class _CapturedByTests(Exception):  # noqa: N818 - as Spark calls its own
    def __init__(self, desc: str) -> None:
        super().__init__(desc)
        self._desc = desc


def test_exceptions_end_with_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("captured")
    kind = type("CapturedException", (_CapturedByTests,), {})
    module.CapturedException = kind  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.errors.exceptions.captured", module)
    monkeypatch.delitem(sys.modules, "pyspark.errors.exceptions.connect", raising=False)
    for _ in range(2):
        add_error_notes()
    error = kind(PLANNING)
    assert str(error) == PLANNING
    assert traceback.format_exception(error)[-1].splitlines()[-1] == "crabka: the log of t-0 was cut: so it is"
    assert not hasattr(kind("Table not found"), "__notes__")
