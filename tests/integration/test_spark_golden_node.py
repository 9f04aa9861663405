"""Topics and metadata that Apache Kafka 4.3.0 wrote, read as the Spark source reads them, with a node and its tier."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import plan_read
from crabka.spark.plan.ranges import PlanReport
from crabka.spark.read import ReadSettings, read_split
from tests.support.recorded.node import GoldenProcess
from tests.support.recorded.rows import golden_rows

TOPICS = (
    *("plain", "plain-logappend", "plain-recompressed", "trimmed", "moved"),
    *("compacted-before", "compacted-after", "compacted-notombstones", "compacted-txn"),
    *("txn", "tiered", "tiered-txn", "tiered-retention", "tiered-deleterecords"),
)


pytestmark = pytest.mark.allow_leaks("obstore keeps its threads")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenProcess]:
    with GoldenProcess(tmp_path_factory.mktemp("golden")) as running:
        yield running


def read(options: dict[str, str]) -> tuple[list[tuple[Any, ...]], PlanReport]:
    chosen = SourceOptions.parse(options | {"includeHeaders": "true"}, streaming=False)
    plan = plan_read(chosen)
    rows: list[tuple[Any, ...]] = []
    for split in plan.splits:
        for batch in read_split(split, ReadSettings.of(chosen, None, plan.tier_uri)):
            for row in batch.to_pylist():
                assert row["timestamp"].tzinfo is not None
                row["timestamp"] = row["timestamp"].astimezone(UTC).replace(tzinfo=None)
                headers = row["headers"]
                row["headers"] = None if headers is None else [(each["key"], each["value"]) for each in headers]
                rows.append(tuple(row.values()))
    return sorted(rows, key=lambda row: (row[3], row[4])), plan.report


@pytest.mark.parametrize("committed", [False, True])
def test_every_topic_has_the_rows_that_kafkas_clients_read(
    node: GoldenProcess, committed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path))
    level = "read_committed" if committed else "read_uncommitted"
    for topic in TOPICS:
        options = {"kafka.bootstrap.servers": node.bootstrap_servers, "subscribe": topic, "isolation.level": level}
        rows, report = read(options)
        assert rows == golden_rows("single", topic, committed=committed), topic
        assert (report.segments > 0) == topic.startswith("tiered"), topic
        if topic == "tiered-txn":  # what lies after the open transaction is not in the tier
            assert report.broker_ranges == (0 if committed else 1)
