"""Run the suites and write the table."""

from __future__ import annotations

import sys

from bench.suite import run_suite
from bench.testkit.suites import TESTKIT

if __name__ == "__main__":
    sys.exit(run_suite(TESTKIT))
