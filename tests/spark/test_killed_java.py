"""A Java that dies while it sends rows to the driver: what has come by then is not taken for everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.spark.servers import driver_environment

# Rows of several megabytes wait at Java for a driver that reads; then Java dies, with all that the sockets do not hold.
SCRIPT = """
import pyspark.util
from pyspark import SparkContext
from pyspark.sql import SparkSession

from crabka.spark.session.row_tasks import collect_rows

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.range(0, 2_000_000, 1, 4)
connect = pyspark.util._create_local_socket

def connect_and_kill(*arguments):
    connected = connect(*arguments)
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    return connected

pyspark.util._create_local_socket = connect_and_kill
try:
    print("rows", len(collect_rows(frame)))
except Exception as error:
    print("raised", type(error).__name__)
"""


def test_the_death_of_java_is_not_the_end_of_the_rows(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=driver_environment(tmp_path, Path(sys.executable)),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.stdout.startswith("raised "), done.stdout + done.stderr[-2000:]
