"""Check that this machine can build and run Crabka, one line per fact.

Runs before anything is installed, so it uses only the standard library and syntax of old Python versions.
`check_machine.py setup` checks Python and the free disk; `check_machine.py java` checks for Java 17 or newer,
which only Spark and the comparison with Apache Kafka need.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

PYTHON_NEEDED = (3, 11)
JAVA_NEEDED = 17
FREE_DISK_NEEDED_MB = 3_000


def python_problem(version: tuple[int, ...]) -> str:
    """Return why this Python cannot run Crabka, or an empty string."""
    if version >= PYTHON_NEEDED:
        return ""
    found, needed = (".".join(map(str, numbers[:2])) for numbers in (version, PYTHON_NEEDED))
    return f"Python {found} found, {needed} or newer needed: run `make PYTHON=python{needed} ...`"


def disk_problem(free_mb: int) -> str:
    """Return why the free space does not hold the environment, or an empty string."""
    if free_mb >= FREE_DISK_NEEDED_MB:
        return ""
    return f"{free_mb} MB of disk free here, {FREE_DISK_NEEDED_MB} MB needed for the virtual environment"


def java_problem(version_text: str) -> str:
    """Return why the Java that printed this text is not enough, or an empty string."""
    major = java_major(version_text)
    if major is None:
        return f"no Java found, Java {JAVA_NEEDED} or newer needed (only for Spark and for Apache Kafka's tools)"
    if major < JAVA_NEEDED:
        return f"Java {major} found, Java {JAVA_NEEDED} or newer needed"
    return ""


def java_major(version_text: str) -> int | None:
    """Return the major version in the output of `java -version`, or None."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if match is None:
        return None
    first, second = match.groups()
    # Up to Java 8 the versions were called 1.x.
    return int(second) if first == "1" and second else int(first)


def read_java_version() -> str:
    """Return what the `java` on the path prints about itself, empty if there is none."""
    java = shutil.which("java")
    if java is None:
        return ""
    done = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode("utf-8", "replace")


def check_setup() -> list[tuple[str, str]]:
    """Return (fact, problem) lines about what the installation needs."""
    free_mb = shutil.disk_usage(".").free // 1_000_000
    version = "{}.{}.{}".format(*sys.version_info[:3])
    return [
        (f"Python {version}", python_problem(sys.version_info[:3])),
        (f"{free_mb} MB of disk free", disk_problem(free_mb)),
    ]


def check_java() -> list[tuple[str, str]]:
    """Return (fact, problem) lines about what Spark and the JVM comparison need."""
    text = read_java_version()
    return [(f"Java {java_major(text)}", java_problem(text))]


def main(arguments: list[str]) -> int:
    """Print one line per check and return the exit code: 0 if all hold."""
    checks = {"setup": check_setup, "java": check_java}
    names = arguments or ["setup"]
    results = [result for name in names for result in checks[name]()]
    for fact, problem in results:
        print(f"  missing  {problem}" if problem else f"  ok       {fact}")
    return 1 if any(problem for _, problem in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
