"""Statistics of the tier that Apache Kafka wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabka.cli.main import execute
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.rows import golden_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(600)
def test_records_bytes_and_keys_are_those_of_the_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    plot = tmp_path / "stats.png"
    place = ["--tier", f"file://{GOLDEN}/single/tier", "--option", "tier.metadata=listing"]
    assert execute(["stats", "tiered", "tiered-txn", *place, "--plot", str(plot), "--json"]) == 0
    days = json.loads(capsys.readouterr().out)
    for topic in ("tiered", "tiered-txn"):
        rows = golden_rows("single", topic, committed=True)
        mine = [day for day in days if day["topic"] == topic]
        assert sum(day["records"] for day in mine) == len(rows)
        assert sum(day["stored"] for day in mine) > 0
        assert all(day["codecs"] for day in mine)
    assert plot.read_bytes().startswith(b"\x89PNG")
