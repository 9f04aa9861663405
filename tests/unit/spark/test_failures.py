"""The texts of Spark's failures."""

from __future__ import annotations

from crabka.spark.failures import failure_of

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


def test_what_java_says_behind_a_task_is_left_out() -> None:
    assert failure_of(SPARK_TEXT + JAVA_TEXT).startswith("offsets 3 to 5 of orders-0 are gone")


def test_java_speaks_where_no_task_did() -> None:
    text = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no executor\n\tat org.apache.X"
    assert failure_of(text) == "no executor"


def test_without_a_traceback_the_first_line_counts() -> None:
    assert failure_of("Job aborted\nmore of it") == "Job aborted"
