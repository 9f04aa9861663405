"""Spark's own Kafka source, the oracle of the tests of ours: jars from Maven, kept in `.cache/stock-connector/`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
POM = ROOT / "tools" / "spark" / "pom.xml"
CACHE = ROOT / ".cache" / "stock-connector"


class StockConnectorUnavailableError(RuntimeError):
    """Maven or the jars are missing; says which."""


def stock_jars() -> list[Path]:
    """Return the jars, fetched if need be. Raises StockConnectorUnavailableError."""
    jars, stamp = CACHE / "jars", CACHE / "stamp"
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Parallel test workers wait here for the one that fetches.
        if not (stamp.exists() and stamp.read_text() == digest):
            _fetch(jars)
            stamp.write_text(digest)
    return sorted(jars.glob("*.jar"))


def _fetch(jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise StockConnectorUnavailableError("no mvn on the PATH to fetch Spark's Kafka source with")
    shutil.rmtree(jars, ignore_errors=True)
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    command = ["mvn", "-q", "-B", "-ntp", "-f", str(POM), *goal]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        reason = (done.stdout + done.stderr)[-1500:]
        raise StockConnectorUnavailableError(f"Maven could not fetch Spark's Kafka source: {reason}")
