"""Warming up loads every kernel, and the package alone loads none."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import crabka.spark
from crabka.spark.decode import AbortedTransactions, CorruptBatch, Origin, RowRange, warm_up
heavy = {"numba", "numpy", "pyarrow", "pyspark"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
warm_up()
import numba
from crabka.spark.decode import gather, kernels
for kernel in (kernels.walk_headers, kernels.walk_records, kernels.walk_record_headers, gather.measure,
               gather.copy_fields, gather.mark_valid):
    assert len(kernel.signatures) == 1, kernel
warm_up()
print("warm")
"""


def test_warming_up_loads_all_kernels_and_only_then() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert result.stdout == "warm\n", result.stderr
