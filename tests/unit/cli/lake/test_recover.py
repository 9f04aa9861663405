"""`crabka recover`: what it shows, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.remote.segments import IndexType
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, two_segments
from tests.unit.cli.conftest import RunCommand

pytestmark = pytest.mark.allow_leaks("the library of object stores keeps descriptors until the process ends")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_data_dir_is_written_and_reported(crabka: RunCommand, tmp_path: Path) -> None:
    uri = write_tier(tmp_path / "tier", two_segments())
    data = str(tmp_path / "data")
    outcome = crabka("recover", "--tier", uri, "--data-dir", data, "--partitions", "orders=2", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["written"]["log_dirs"] == [data]
    first, second = outcome.json["partitions"]
    assert (first["topic"], first["start"], first["end"], first["segments"]) == ("orders", 0, 60, 2)
    assert (second["partition"], second["end"]) == (1, 0)
    assert any("partitions 1: they start empty" in note for note in outcome.json["notes"])
    assert any("retention.ms" in note for note in outcome.json["notes"])
    again = crabka("recover", "--tier", uri, "--data-dir", data)
    assert (again.code, "is not empty" in again.err) == (2, True)


def test_dry_run_writes_nothing(crabka: RunCommand, tmp_path: Path) -> None:
    tier = PlantedTier()
    for start in (0, 10, 20, 30):
        tier.add(batches(start, 2), [(0, 0)])
    tier.remove(tier.segments[1], None)
    tier.remove(tier.segments[3], IndexType.OFFSET)
    outcome = crabka("recover", "--tier", write_tier(tmp_path / "tier", tier), "--dry-run")
    assert outcome.code == 0
    assert "10..19" in outcome.out
    assert "lacks offsets 10..19" in outcome.err
    assert "skipped: segment 00000000000000000030" in outcome.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--data-dir DIRECTORY or --config FILE"),
        (("--data-dir", "x", "--config", "y"), "--data-dir DIRECTORY or --config FILE"),
        (("--data-dir", "x", "--topic", "nope"), "no segment of topic nope"),
        (("--data-dir", "x", "--topic-id", "orders=short"), "--topic-id"),
        (("--data-dir", "x", "--partitions", "orders=many"), "not a number of partitions"),
        (("--data-dir", "x", "--cluster-id", "short"), "--cluster-id"),
        (("--config", "missing.properties"), "cannot read missing.properties"),
    ],
)
def test_wrong_options_are_reported(crabka: RunCommand, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    uri = write_tier(tmp_path / "tier", two_segments())
    placed = [str(tmp_path / "data") if option == "x" else option for option in options]
    outcome = crabka("recover", "--tier", uri, *placed)
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "data").exists()


def test_empty_tier_is_reported(crabka: RunCommand, tmp_path: Path) -> None:
    outcome = crabka("recover", "--tier", write_tier(tmp_path / "tier"), "--data-dir", str(tmp_path / "data"))
    assert (outcome.code, "no segment that could be recovered" in outcome.err) == (2, True)


def test_one_of_two_topics_can_be_chosen(crabka: RunCommand, tmp_path: Path) -> None:
    uri = write_tier(tmp_path / "tier", two_segments())
    outcome = crabka("recover", "--tier", uri, "--dry-run", "--topic", ORDERS.topic, "--json")
    assert [row["topic"] for row in outcome.json["partitions"]] == ["orders"]
