"""Every way in which a log can lose what was read of it: tables and streams stop with the error, or are the topic.

The leader is a script and the tier a directory, so that each way is just what it is called.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle, product
from pathlib import Path

import pytest

from crabka.errors import ConfigError, CrabkaError
from crabka.spark.errors import DataLossError
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.rewinding import rewind_table
from crabka.spark.lake.syncing.planner_source import PlannerSource
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import TopicSync
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.history.divergence import LogCutError
from crabka.spark.source.stream_reader import CrabkaStreamReader
from tests.support.clusters.scripted_log import Rows, ScriptedCluster, ScriptedLog, log_of
from tests.support.scale import soaking
from tests.support.spark.lake_reader import table_rows
from tests.support.spark.lake_tables import ALL_FORMATS, lake_of
from tests.support.spark.lake_topic import InlineRunner
from tests.support.tiers.planted import PlantedTier, batches
from tests.support.tiers.stores import write_tier

pytestmark = [
    pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections"),
    pytest.mark.usefixtures("_plan_cache"),
]

# Two epochs; the position of readers is 60.
OLD = log_of((6, b"old", 0), (6, b"old", 1))
POSITION = OLD.end
ANOTHER_TOPIC = uuid.UUID(int=0xFEDCBA)


@dataclass(frozen=True)
class CutKind:
    """What became of the log, and what a sync says then; None if it goes on."""

    log: ScriptedLog
    error: type[CrabkaError] | None = LogCutError


def refilled(offset: int, count: int, epoch: int) -> ScriptedLog:
    return OLD.cut(offset).filled(count, b"new", epoch=epoch)


ANEW = replace(log_of((20, b"new", 0)), topic_id=ANOTHER_TOPIC)
KINDS = {
    "unclean election, not filled again": CutKind(OLD.cut(40)),
    "unclean election, shorter": CutKind(refilled(40, 2, epoch=2)),
    "unclean election, as long": CutKind(refilled(40, 4, epoch=2)),
    "unclean election, longer": CutKind(refilled(40, 9, epoch=2)),
    "older copy, epoch used again, shorter": CutKind(refilled(40, 2, epoch=1)),
    "older copy, epoch used again, as long": CutKind(refilled(40, 4, epoch=1)),
    "older copy, epoch used again, longer": CutKind(refilled(40, 9, epoch=1)),
    "older copy, epoch begun again": CutKind(refilled(20, 12, epoch=1)),
    "only the last batch": CutKind(refilled(55, 3, epoch=1)),
    "emptied, longer": CutKind(log_of((20, b"new", 0))),
    "emptied": CutKind(ScriptedLog()),
    "at the position": CutKind(OLD.filled(4, b"new", epoch=2), None),
    "created anew, longer": CutKind(ANEW, LakeError),
    "created anew, as long": CutKind(ANEW.cut(60), LakeError),
    "created anew, shorter": CutKind(ANEW.cut(40), LakeError),
    "log start beyond the position": CutKind(OLD.filled(8, b"new", epoch=1).started_at(80), DataLossError),
    "log start beyond the position after a cut": CutKind(refilled(40, 12, epoch=2).started_at(80), CrabkaError),
    "witness compacted": CutKind(OLD.filled(4, b"new", epoch=1).compacted(range(50, 60)), None),
    "witness compacted, then cut": CutKind(refilled(40, 9, epoch=2).compacted(range(50, 60))),
    "witness compacted, epoch used again": CutKind(refilled(20, 12, epoch=1).compacted(range(40, 60))),
}


def with_formats(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Each kind with every format in a soak run, else with one of them in turn: what is said of a log is the same."""
    if soaking():
        return list(product(kinds, ALL_FORMATS))
    return list(zip(kinds, cycle(ALL_FORMATS), strict=False))


@pytest.fixture
def _plan_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    return ScriptedCluster(monkeypatch, OLD.cut(30))


def bring(lake: Lake, source: PlannerSource) -> None:
    sync = TopicSync(lake, source, InlineRunner(), SyncSettings(), topic="orders")
    while sync.run_round() is not None:
        pass


def rows(lake: Lake) -> Rows:
    return [(row["kafka_offset"], row["value"]) for row in table_rows(Path(lake.root), "orders", lake.table_format)]


@pytest.mark.parametrize(("kind", "table_format"), with_formats(KINDS))
def test_a_table_is_the_topic_or_its_sync_stops(
    tmp_path: Path, cluster: ScriptedCluster, kind: str, table_format: str
) -> None:
    lake, source = lake_of(tmp_path, table_format), PlannerSource(cluster.options)
    bring(lake, source)
    cluster.log = OLD
    bring(lake, source)
    assert rows(lake) == OLD.rows()
    cluster.log, error = KINDS[kind].log, KINDS[kind].error
    if error is not None:
        with pytest.raises(error):
            bring(lake, source)
        assert rows(lake) == OLD.rows()
    if error is LogCutError:
        assert rewind_table(lake, "orders", source)
    if error in (LogCutError, None):
        bring(lake, source)
        assert [row for row in rows(lake) if row[0] in dict(cluster.log.rows())] == cluster.log.rows()
        assert rows(lake)[-1:] == cluster.log.rows()[-1:]
        assert rewind_table(lake, "orders", source) == []


def values(reader: CrabkaStreamReader, start: int) -> list[bytes]:
    """Run the next batch as Spark does, and return its values."""
    begin = {"orders": {"0": start}}
    end = reader.latestOffset(begin, reader.getDefaultReadLimit())
    batches = [batch for part in reader.partitions(begin, end) for batch in reader.read(part)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def query(options: dict[str, str]) -> CrabkaStreamReader:
    parsed = SourceOptions.parse(options | {"subscribe": "orders", "startingOffsets": "earliest"}, streaming=True)
    return CrabkaStreamReader(parsed, ("offset", "value"), ("offset", "value"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_stops_unless_it_reads_on_in_the_same_log(tmp_path: Path, cluster: ScriptedCluster, kind: str) -> None:
    options = dict(cluster.options) | {"positionLocation": str(tmp_path / "positions")}
    assert len(values(query(options), 0)) == 30
    cluster.log = OLD
    assert len(values(query(options), 30)) == 30
    cluster.log, error = KINDS[kind].log, KINDS[kind].error
    if error is None:
        assert set(values(query(options), POSITION)) == {b"new"}
        return
    if cluster.log.end == POSITION:
        # There is nothing to read yet, and no batch; the next record brings one.
        assert values(query(options), POSITION) == []
        cluster.log = cluster.log.filled(1, b"new", epoch=cluster.log.epochs[-1][0])
    for _ in range(2):
        with pytest.raises(DataLossError):
            values(query(options), POSITION)
    accepted = query(options | {"failOnDataLoss": "false"})
    assert set(values(accepted, POSITION)) <= {b"new"}


TIERS = {
    "filled again": ((batches(0, 6), batches(30, 10, value=b"new")), LogCutError),
    "filled again from the start on": ((batches(0, 20, value=b"new"),), LogCutError),
    "cut": ((batches(0, 6),), DataLossError),
    "emptied": ((), ConfigError),
}


def tier_options(place: Path) -> dict[str, str]:
    return {"tier.uri": f"file://{place}", "tier.metadata": "listing", "fetchOffset.retryIntervalMs": "0"}


def tier_at(place: Path, *segments: bytes) -> None:
    shutil.rmtree(place, ignore_errors=True)
    (place / "kafka-tiered-storage").mkdir(parents=True)
    tier = PlantedTier(first_id=uuid.uuid4().int >> 32)
    for segment in segments:
        tier.add(segment, [(0, 0)])
    write_tier(tier, place)


@pytest.mark.parametrize(("kind", "table_format"), with_formats(TIERS))
def test_a_table_of_a_tier_alone_stops_as_well(tmp_path: Path, kind: str, table_format: str) -> None:
    lake, place = lake_of(tmp_path, table_format), tmp_path / "tier"
    source = PlannerSource(tier_options(place))
    tier_at(place, batches(0, 6), batches(30, 6))
    bring(lake, source)
    before = rows(lake)
    assert len(before) == POSITION
    segments, error = TIERS[kind]
    tier_at(place, *segments)
    with pytest.raises(error):
        bring(lake, source)
    assert rows(lake) == before
    if error is LogCutError:
        assert rewind_table(lake, "orders", source)
        bring(lake, source)
        assert len(rows(lake)) == len({offset for offset, _ in rows(lake)}) > POSITION
        assert {value for offset, value in rows(lake) if offset >= POSITION} == {b"new"}


@pytest.mark.parametrize("kind", TIERS)
def test_a_stream_of_a_tier_alone_stops_as_well(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "tier"
    options = tier_options(place) | {"positionLocation": str(tmp_path / "at")}
    tier_at(place, batches(0, 6), batches(30, 6))
    assert len(values(query(options), 0)) == POSITION
    segments, error = TIERS[kind]
    tier_at(place, *segments)
    if kind == "cut":
        # It may not be there yet: a query that is ahead of the tier waits for it.
        assert values(query(options), POSITION) == []
        tier_at(place, *segments, batches(30, 10, value=b"new"))
        error = LogCutError
    with pytest.raises(error):
        values(query(options), POSITION)
