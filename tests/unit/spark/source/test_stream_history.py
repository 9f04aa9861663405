from __future__ import annotations

import json
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.errors import TopicChangedError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.history.divergence import LogCutError
from crabka.spark.plan.planner import plan_offsets
from crabka.spark.source.stream_history import StreamHistory
from crabka.spark.source.stream_reader import CrabkaStreamReader
from tests.support.pickling import sent
from tests.support.tiers.planted import PlantedTier, batches
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

O0 = TopicPartition("orders", 0)
Dict = dict[str, dict[str, int]]


def options(uri: str, **more: str) -> SourceOptions:
    given = {"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing", "startingOffsets": "earliest"}
    return SourceOptions.parse(given | more, streaming=True)


def query(uri: str, **more: str) -> CrabkaStreamReader:
    return sent(CrabkaStreamReader(options(uri, **more), ("offset", "value"), ("offset", "value")))


def at(offset: int) -> Dict:
    return {"orders": {"0": offset}}


def values(reader: CrabkaStreamReader, start: int, end: int) -> list[bytes]:
    rows = [batch for part in reader.partitions(at(start), at(end)) for batch in reader.read(part)]
    return [value for batch in rows for value in batch.column("value").to_pylist()]


def tier_of(*values: bytes) -> PlantedTier:
    """One segment, with five records of every value."""
    log = b"".join(batches(5 * number, 1, value=value) for number, value in enumerate(values))
    tier = PlantedTier()
    tier.add(log, [(0, 0)])
    return tier


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return write_tier(tier_of(*[b"old"] * 6), tmp_path / "old")


@pytest.fixture
def cut_uri(tmp_path: Path) -> str:
    """The tier after the log was cut at offset 10 and filled again."""
    return write_tier(tier_of(*[b"old"] * 2, *[b"new"] * 6), tmp_path / "cut")


def test_a_query_that_starts_again_notices_a_cut(tmp_path: Path, uri: str, cut_uri: str) -> None:
    place = {"positionLocation": str(tmp_path / "checkpoint")}
    first = query(uri, **place)
    assert values(first, 0, 10) == [b"old"] * 10
    assert values(first, 10, 25) == [b"old"] * 15
    # The same log: the query goes on, and may do its last batch again.
    assert values(query(uri, **place), 10, 25) == [b"old"] * 15
    assert values(query(uri, **place), 25, 30) == [b"old"] * 5
    with pytest.raises(LogCutError, match="read before offset 25; the histories agree before offset 10 and differ"):
        values(query(cut_uri, **place), 25, 40)
    # The error lasts until losses are accepted; then the query follows the new history.
    with pytest.raises(LogCutError):
        values(query(cut_uri, **place), 25, 40)
    assert values(query(cut_uri, **place, failOnDataLoss="false"), 25, 40) == [b"new"] * 15
    assert values(query(cut_uri, **place), 40, 40) == []
    # From where nothing was cut there is nothing to notice.
    assert values(query(cut_uri, **place), 10, 40) == [b"new"] * 30


def test_a_query_that_runs_notices_a_cut(tmp_path: Path, uri: str) -> None:
    running = query(uri)
    assert values(running, 0, 25) == [b"old"] * 25
    for path in (tmp_path / "old").rglob("*"):
        if path.is_file():
            path.unlink()
    tier = tier_of(*[b"old"] * 2, *[b"new"] * 6)
    write_tier(tier, tmp_path / "old")
    with pytest.raises(LogCutError):
        values(running, 25, 40)


def test_witnesses_are_kept_by_the_driver_unless_a_place_is_named(uri: str) -> None:
    first = query(uri)
    assert values(first, 0, 10) == [b"old"] * 10
    assert [len(chain) for chain in StreamHistory(options(uri)).chains({O0: 10}).values()] == [1]
    assert StreamHistory(options(uri)).chains({O0: 9}) == {O0: ()}


def test_a_checkpoint_of_another_source_has_nothing_to_verify(cut_uri: str) -> None:
    assert values(query(cut_uri), 25, 40) == [b"new"] * 15


def test_what_cannot_be_read_is_reported_and_written_anew(
    tmp_path: Path, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = {"positionLocation": str(tmp_path / "checkpoint")}
    assert values(query(uri, **place), 0, 10) == [b"old"] * 10
    (file,) = (tmp_path / "checkpoint").iterdir()
    content = json.loads(file.read_text())
    for damaged in (b"{", b"[]", json.dumps(content | {"format": 2}).encode(), b'{"format":1}'):
        file.write_bytes(damaged)
        caplog.clear()
        assert values(query(uri, **place), 10, 15) == [b"old"] * 5
        assert "cannot be verified" in caplog.text
    assert list(json.loads(file.read_text())["ends"]["0"]) == [15]


def test_another_topic_of_the_same_name_is_another_history(tmp_path: Path, uri: str) -> None:
    place = {"positionLocation": str(tmp_path / "checkpoint")}
    assert values(query(uri, **place), 0, 10) == [b"old"] * 10
    (file,) = (tmp_path / "checkpoint").iterdir()
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"topic_id": "another"}))
    for _ in range(2):
        with pytest.raises(
            TopicChangedError, match=r"created anew: what was read of orders-0 before offset 10 is of the"
        ):
            values(query(uri, **place), 10, 20)
    # A query that was not there before has read nothing of the other one.
    plan = plan_offsets(options(uri), {O0: 5}, {O0: 20})
    StreamHistory(options(uri, **place)).verify(plan, {O0: 5}, {O0: 20})
    assert json.loads(file.read_text())["ends"] == {"0": [20]}
    file.write_text(json.dumps(content | {"topic_id": "another"}))
    assert values(query(uri, **place, failOnDataLoss="false"), 10, 20) == [b"old"] * 10
    assert json.loads(file.read_text())["ends"] == {"0": [20]}


def test_few_ends_are_remembered(tmp_path: Path) -> None:
    uri = write_tier(tier_of(*[b"x"] * 20), tmp_path / "long")
    place = {"positionLocation": str(tmp_path / "checkpoint")}
    reader = query(uri, **place)
    for end in range(1, 90):
        reader.partitions(at(end - 1), at(end))
    (file,) = (tmp_path / "checkpoint").iterdir()
    assert json.loads(file.read_text())["ends"]["0"] == list(range(26, 90))


def test_a_place_for_positions_is_for_streams(uri: str) -> None:
    with pytest.raises(ConfigError, match="positionLocation is for streaming queries only"):
        SourceOptions.parse(
            {"subscribe": "t", "tier.uri": uri, "tier.metadata": "listing", "positionLocation": "x"}, streaming=False
        )
