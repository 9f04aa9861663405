"""Registers the format with a session."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from crabka.errors import ConfigError
from crabka.spark.session.error_texts import add_error_notes
from crabka.spark.session.shipping import is_shipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the format `crabka`, and append the messages of its errors to the exceptions of Spark.

    Raises ConfigError if the workers would run a Python that does not have Crabka.
    """
    from crabka.spark.source.data_source import CrabkaDataSource

    _check_python("pyarrow, numba" if is_shipped(spark) else "crabka.spark, pyarrow, numba")
    spark.dataSource.register(CrabkaDataSource)
    add_error_notes()


def _check_python(modules: str) -> None:
    """Refuse a PYSPARK_PYTHON of this machine that cannot import what the workers need."""
    python = os.environ.get("PYSPARK_PYTHON")
    # A path that is not there may be one inside of an archive that goes to the executors.
    if python is None or os.path.realpath(python) == os.path.realpath(sys.executable) or not os.path.isabs(python):
        return
    if not os.path.exists(python):
        return
    command = [python, "-c", f"import {modules}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise ConfigError(
            f"PYSPARK_PYTHON is {python}, which cannot read topics ({reason}); set it to {sys.executable} before the "
            "session is made"
        )
