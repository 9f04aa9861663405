"""Checks that the Java that Spark would start exists and is new enough, before Spark fails with a longer text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

OLDEST_JAVA: Final = 17
_TIMEOUT_S: Final = 30


def java_problem() -> str | None:
    """Return one sentence if Spark cannot start here, else None."""
    java = _java()
    wanted = f"Spark needs Java {OLDEST_JAVA} or newer"
    if java is None:
        return f"{wanted}, and there is no java on the PATH; install one or set JAVA_HOME"
    try:
        done = subprocess.run(  # noqa: S603 - what Spark would start
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{wanted}, and {java} does not run: {error}"
    version = java_version(done.stderr + done.stdout)
    if version is None:
        return f"{wanted}, and {java} does not say its version"
    if version < OLDEST_JAVA:
        return f"{wanted}, and {java} is Java {version}; install one or set JAVA_HOME"
    return None


def java_version(text: str) -> int | None:
    """Return the major version that `java -version` prints; versions before 9 call themselves 1.x."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _java() -> str | None:
    """Return the program that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java")
