"""The Spark session of jobs: the active one, or a new one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crabka.errors import ConfigError
from crabka.spark.session.error_texts import SparkJobError, failure_of
from crabka.spark.session.java import java_problem
from crabka.spark.session.java_log import JavaLog, keeping_exit_report
from crabka.spark.session.shipping import is_elsewhere, ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_CONNECT = "sc://"
_CONNECT_PORT = 15002
_STANDALONE = "spark://"
_STANDALONE_PORT = 7077
_CONNECT_TIMEOUT_S = 10.0
_ENDING_S = 0.5
_JAVA_ENDED = (
    "Spark's Java ended in the middle of the job: it was killed, or the machine had no memory left; what was "
    "committed is safe, run the command again"
)
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def job_session(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None, *, log: str | None = None
) -> Iterator[SparkSession]:
    """Yield a session for a job; one that was made for it is stopped afterwards, one that was there is left alone.

    Without a master spark-submit decides, and local[*] where there is none. Workers of a cluster and of a Connect
    server are sent Crabka's code. The output of a Java that the session starts goes to `log`; without one it is removed
    after success. Raises ConfigError if Spark's Java is missing or too old or the master is not there, SparkJobError
    with one sentence for whatever Spark raises inside.
    """
    # Tasks must run in the Python that has Crabka.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        with _in_one_sentence(None):
            yield active
        return
    require_master(master)
    java_log = JavaLog(log) if _starts_java(master) else None
    keep_log = False
    try:
        with _in_one_sentence(java_log), _new_session(name, master, settings or {}, java_log) as session:
            yield session
    except SparkJobError:
        keep_log = True
        raise
    finally:
        if java_log is not None:
            java_log.close(keep=keep_log)


def _starts_java(master: str | None) -> bool:
    """Return whether a session brings a Java of its own. Raises ConfigError if it would and cannot."""
    from pyspark import SparkContext

    if master is not None and master.startswith(_CONNECT):
        return False
    if (problem := java_problem()) is not None:
        raise ConfigError(problem)
    # Below spark-submit Java has started this process.
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ


@contextmanager
def _new_session(
    name: str, master: str | None, settings: Mapping[str, str], java_log: JavaLog | None
) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in (_QUIET | dict(settings)).items():
        builder = builder.config(key, value)
    if master is not None and master.startswith(_CONNECT):
        builder = builder.remote(master)
    elif master is not None or ("spark.master" not in settings and "SPARK_ENV_LOADED" not in os.environ):
        builder = builder.master(master or DEFAULT_MASTER)
    with nullcontext() if java_log is None else java_log.taking_errors():
        session = builder.getOrCreate()
    with nullcontext() if java_log is None else keeping_exit_report(session, java_log):
        try:
            if is_elsewhere(session):
                ship(session)
            yield session
        finally:
            # A Java that is gone needs no stop, and its failure has been raised already.
            with suppress(Py4JError, ConnectionError):
                session.stop()


@contextmanager
def _in_one_sentence(java_log: JavaLog | None) -> Iterator[None]:
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    more = "" if java_log is None else f" (Spark's log is {java_log.path})"
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        # An exception of Java's own comes from a Java that is alive.
        if not isinstance(error, (PySparkException, Py4JJavaError)) and _has_java_ended():
            raise SparkJobError(_JAVA_ENDED + more) from error
        # A missing library is an ImportError, too: commands say how to install it.
        if isinstance(error, (ConnectionError, ImportError)):
            raise
        raise SparkJobError(failure_of(str(error)) + more) from error


def _has_java_ended() -> bool:
    """Return whether the Java that this process started for Spark is gone."""
    from pyspark import SparkContext

    java = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False
    try:
        # The connection may break a moment before.
        java.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def require_master(master: str | None) -> None:
    """Raise ConfigError unless one of the named masters, or the Connect server, takes connections.

    Spark itself retries for minutes, and then fails with another text. What follows the hosts is not shown: it may hold
    a token.
    """
    if master is None or not master.startswith((_CONNECT, _STANDALONE)):
        return
    scheme, _, rest = master.partition("://")
    hosts = rest.partition("/")[0]
    if set(";?#") & set(hosts):
        raise ConfigError(f"in an address of Spark a slash ends the hosts: {scheme}://host:port/;parameters")
    default = _CONNECT_PORT if master.startswith(_CONNECT) else _STANDALONE_PORT
    # There may be a name and a password in front of a host, too.
    places = [place.rpartition("@")[2] for place in hosts.split(",")]
    problems = []
    for place in places:
        try:
            address = urlsplit(f"//{place}")
            socket.create_connection((address.hostname or "", address.port or default), _CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError) as error:
            problems.append(str(error))
        else:
            return
    raise ConfigError(f"there is no Spark at {scheme}://{','.join(places)}: {problems[0]}")
