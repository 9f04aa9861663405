"""Damaged batches with checksums that fit give right rows or CorruptBatch, and no read leaves its memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scale import scaled

ROOT = Path(__file__).parents[2]
ENDINGS = {
    "rows",
    "rows of a range",
    "a field does not fit in its record",
    "a record does not fit in its batch",
    "a record has an offset outside its batch",
    "a record has an offset that is not above the one before it",
    "a record has broken headers",
    "a record is cut short",
    "bytes follow the last record",
    "the length is impossible",
}

OUT_OF_BOUNDS = """
import numpy
from numba import types
from crabka.spark.decode.jit import BYTES, compiled
@compiled(types.uint8, BYTES)
def beyond(data):
    return data[len(data)]
beyond(numpy.zeros(5, numpy.uint8))
"""


def run(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def fuzz(rng: random.Random, count: int, environment: dict[str, str]) -> None:
    seed = rng.getrandbits(32)
    result = run(["-m", "tests.support.spark.fuzz", str(seed), str(count)], environment)
    assert result.returncode == 0, f"seed {seed}: ended by {result.returncode}\n{result.stderr}"
    endings = json.loads(result.stdout)
    assert endings.keys() >= ENDINGS
    assert count / 10 < endings["rows"] < count / 2
    assert endings["rows"] < endings["rows of a range"]


def test_damaged_batches_give_right_rows_or_corrupt_batch(rng: random.Random) -> None:
    fuzz(rng, scaled(1_500, 300_000), {})


def test_no_read_leaves_its_buffer_when_numba_checks_each_of_them(rng: random.Random, tmp_path: Path) -> None:
    checking = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    (tmp_path / "beyond.py").write_text(OUT_OF_BOUNDS)
    assert "IndexError" in run([str(tmp_path / "beyond.py")], checking).stderr
    fuzz(rng, scaled(1_000, 100_000), checking)


@pytest.mark.soak
def test_fresh_seeds_find_nothing_either() -> None:
    fuzz(random.Random(), 100_000, {})
