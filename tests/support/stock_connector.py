"""Spark's own Kafka source, the oracle of the tests of ours: jars from Maven, kept in `.cache/stock-connector/`."""

from __future__ import annotations

from pathlib import Path

from tests.support.maven import fetched_jars

ROOT = Path(__file__).parents[2]
POM = ROOT / "tools" / "spark" / "pom.xml"
CACHE = ROOT / ".cache" / "stock-connector"


def stock_jars() -> list[Path]:
    """Return the jars, fetched if need be. Raises MavenUnavailableError."""
    return sorted(fetched_jars(POM, CACHE, "Spark's Kafka source").glob("*.jar"))
