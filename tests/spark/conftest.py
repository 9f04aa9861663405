"""One Spark session for all tests that need one: starting it takes longer than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from crabka.spark.source.registration import register
from tests.support.kafka.maven import MavenUnavailableError
from tests.support.spark.stock_connector import delta_jars, stock_jars

ROOT = Path(__file__).parents[2]
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Fifty are for tables that are not small.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Python's own warnings of a foreign library, and sockets that its gateway leaves to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def stock_reason() -> str | None:
    """Why Spark's own Kafka source and Delta are not there; None if they are."""
    try:
        stock_jars()
        delta_jars()
    except MavenUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI needs Spark's Kafka source and Delta: {error}")
        return str(error)
    return None


@pytest.fixture
def stock(stock_reason: str | None) -> None:
    """Skip where there is nothing to compare with."""
    if stock_reason is not None:
        pytest.skip(stock_reason)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, stock_reason: str | None) -> Iterator[SparkSession]:
    """The shared session: two cores, little memory, our format, and Spark's Kafka source and Delta if there are any."""
    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["CRABKA_CACHE_DIR"] = str(directory / "cache")
    # Workers are processes of their own, which find the code as this one does.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.Builder().master("local[2]").appName("crabka-tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.log.level": "ERROR",
    }
    if stock_reason is None:
        settings |= {"spark.jars": ",".join(map(str, stock_jars() + delta_jars()))} | DELTA
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    register(session)
    yield session
    session.stop()
