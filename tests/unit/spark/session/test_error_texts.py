from __future__ import annotations

import sys
import traceback
from types import ModuleType

import pytest

from crabka.spark.session.error_texts import add_error_notes, failure_of, sentence_of

PLANNING = """[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: Traceback (most recent \
call last):
  File "worker.py", line 7, in main
ValueError: another one
  File "planner.py", line 30, in plan_read
crabka.spark.plan.history.divergence.LogCutError: the log of t-0 was cut: so it is
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


SPARK_TEXT = """[STREAM_FAILED] An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
OSError: [Errno 2] No such file

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "tasks.py", line 9, in run_task
    raise DataLossError(message)
crabka.spark.errors.DataLossError: offsets 3 to 5 of orders-0 are gone; set failOnDataLoss to false
"""
JAVA_TEXT = """
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
Caused by: java.net.SocketException: Broken pipe
java.lang.Error: and so on
"""


def test_the_last_sentence_of_a_task_is_what_went_wrong() -> None:
    assert failure_of(SPARK_TEXT).startswith("offsets 3 to 5 of orders-0 are gone")


def test_what_java_says_after_a_task_is_left_out() -> None:
    assert failure_of(SPARK_TEXT + JAVA_TEXT).startswith("offsets 3 to 5 of orders-0 are gone")


def test_java_speaks_where_no_task_did() -> None:
    text = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no executor\n\tat org.apache.X"
    assert failure_of(text) == "no executor"


def test_without_a_traceback_the_first_line_counts() -> None:
    assert failure_of("Job aborted\nmore of it") == "Job aborted"
