"""Jars from Maven, fetched once: a stamp with the digest of the POM says that they are complete."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class MavenUnavailableError(RuntimeError):
    """Maven or the jars are missing; says which."""


def fetched_jars(pom: Path, cache: Path, what: str, *, on_fetched: Callable[[Path], None] = lambda _jars: None) -> Path:
    """Return the directory of the jars that a POM names, fetched if need be. Raises MavenUnavailableError.

    `on_fetched` makes what else belongs to them, before they count as complete.
    """
    jars, stamp = cache / "jars", cache / "stamp"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Parallel test workers wait here for the one that fetches.
        if not (stamp.exists() and stamp.read_text() == digest):
            _fetch(pom, jars, what)
            on_fetched(jars)
            stamp.write_text(digest)
    return jars


def _fetch(pom: Path, jars: Path, what: str) -> None:
    if shutil.which("mvn") is None:
        raise MavenUnavailableError(f"no mvn on the PATH to fetch {what} with")
    shutil.rmtree(jars, ignore_errors=True)
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    command = ["mvn", "-q", "-B", "-ntp", "-f", str(pom), *goal]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise MavenUnavailableError(f"Maven could not fetch {what}: {(done.stdout + done.stderr)[-1500:]}")
