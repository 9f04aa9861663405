"""Spark's own Kafka source and Delta, the oracles of the tests of ours: jars from Maven, kept in `.cache/`."""

from __future__ import annotations

from pathlib import Path

from tests.support.kafka.maven import fetched_jars

ROOT = Path(__file__).parents[3]
POMS = ROOT / "tools" / "spark"
CACHE = ROOT / ".cache"


def stock_jars() -> list[Path]:
    """Return the jars of the Kafka source, fetched if need be. Raises MavenUnavailableError."""
    return _jars(POMS / "pom.xml", "stock-connector", "Spark's Kafka source")


def delta_jars() -> list[Path]:
    """Return the jars of Delta, fetched if need be. Raises MavenUnavailableError."""
    return _jars(POMS / "delta" / "pom.xml", "stock-delta", "Spark's Delta")


def _jars(pom: Path, cache: str, what: str) -> list[Path]:
    return sorted(fetched_jars(pom, CACHE / cache, what).glob("*.jar"))
