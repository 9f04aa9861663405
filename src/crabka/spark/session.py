"""The Spark session of jobs: the one there is, else one of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crabka.errors import ConfigError
from crabka.spark.java import java_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def job_session(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session for a job; one that was made for it is stopped afterwards, one that was there is left alone.

    Without a master spark-submit decides, and local[*] where there is none. Raises ConfigError if Spark's Java is
    missing or too old.
    """
    # Tasks must run in the Python that has Crabka.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    builder = SparkSession.builder.appName(name)
    for key, value in (_QUIET | dict(settings or {})).items():
        builder = builder.config(key, value)
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    elif (problem := java_problem()) is not None:
        raise ConfigError(problem)
    elif master is not None or ("spark.master" not in (settings or {}) and "SPARK_ENV_LOADED" not in os.environ):
        builder = builder.master(master or DEFAULT_MASTER)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
