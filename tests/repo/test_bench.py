"""The pure parts of the benchmarks: statistics, verdicts, table, profile summary, members of groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.cluster import CLUSTER_EXPERIMENTS
from bench.cluster_rows import CLUSTER_ROWS
from bench.experiments import EXPERIMENT_FUNCTIONS
from bench.failover import FAILOVERS
from bench.members import LightMember, decode_assignment, encode_assignment, is_stable
from bench.moves import MOVES
from bench.moves_experiments import MOVE_EXPERIMENTS
from bench.moves_rows import MOVE_ROWS
from bench.partition_experiments import PARTITION_EXPERIMENTS, PartitionWork, fitting
from bench.partitions import PARTITION_ROWS
from bench.partitions import PARTITIONS as MANY_PARTITIONS
from bench.profiler import summary
from bench.redraw import KEPT
from bench.report import RESULTS, as_json, cells, comparison_figure, markdown, table
from bench.rows import EXPERIMENTS, ROWS, selected_experiments
from bench.spark import SPARK
from bench.spark_experiments import SPARK_EXPERIMENTS
from bench.spark_place import PARTITIONS as SPARK_PARTITIONS
from bench.spark_place import SparkPlace, value_of
from bench.spark_rows import SPARK_ROWS
from bench.stats import judge, medians, percentile
from bench.suite import Suite, run_suite
from bench.testkit.suites import SCOPES, TESTKIT_EXPERIMENTS, TESTKIT_ROWS, TestkitWork, run_tests, write_suite
from bench.tier import TIER
from bench.tier_copies import measured, peak_growth, upload_to_directory
from bench.tier_experiments import TIER_EXPERIMENTS, draw_latency
from bench.tier_latency import Phases, draw_phases, windows
from bench.tier_metadata import PARTITIONS, SEGMENT_OFFSETS, copies
from bench.tier_rows import TIER_ROWS
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tests.support.plots import texts_of, unreadable_texts

BY_KEY = {row.key: row for row in ROWS}


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 99, 5.0),
        ([float(n) for n in range(1, 101)], 99, 99.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([1.0, 2.0], 100, 2.0),
    ],
)
def test_percentile_is_a_value_that_occurred(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs values"):
        percentile([], 50)


@pytest.mark.parametrize(
    ("key", "kafka", "crabka", "verdict"),
    [
        ("single_rate", 10.0, 24.0, "NOT MET"),
        ("single_rate", 10.0, 25.0, "met"),
        ("single_rate", 10.0, 40.0, "stretch"),
        ("single_cpu", 100.0, 41.0, "NOT MET"),
        ("single_cpu", 100.0, 40.0, "met"),
        ("single_cpu", 100.0, 20.0, "stretch"),
        ("rss_idle", 400.0, 101.0, "NOT MET"),
        ("rss_idle", None, 60.0, "stretch"),
        ("recovery", 2.0, 0.1, "met"),
        ("java_perf", 2.0, 1.0, ""),
        ("eos", 1000.0, 999.0, "NOT MET"),
        ("eos", 1000.0, 1500.0, "stretch"),
        ("rebalance_classic_start", 2.0, 2.0, "met"),
        ("rebalance_consumer_change", 2.0, 2.1, "NOT MET"),
        ("single_rate", None, 40.0, ""),
        ("single_rate", 10.0, None, ""),
    ],
)
def test_verdict_follows_the_bars(key: str, kafka: float | None, crabka: float | None, verdict: str) -> None:
    assert judge(BY_KEY[key], kafka, crabka).verdict == verdict


def test_medians_are_taken_row_by_row() -> None:
    assert medians({"a": [3.0, 1.0, 2.0], "b": [1.0, 2.0], "c": []}) == {"a": 2.0, "b": 1.5}


def test_table_lines_up_and_says_everything() -> None:
    outcomes = [judge(BY_KEY["single_rate"], 10_000.0, 30_000.0), judge(BY_KEY["rss_idle"], None, 70.0)]
    lines = table(outcomes).splitlines()
    assert len({len(line) for line in lines}) == 1
    expected = ("one-record produce requests", "10,000 req/s", "30,000 req/s", "3.00x", "≥ 2.5x", "≥ 4x", "met")
    assert cells(outcomes[0]) == expected
    assert cells(outcomes[1])[1:] == ("-", "70.0 MB", "-", "≤ 100 MB", "≤ 60 MB", "met")


def test_markdown_and_json_carry_facts_and_samples() -> None:
    outcomes = [judge(BY_KEY["start"], 4.0, 1.0)]
    assert "- machine: small\n" in markdown(outcomes, {"machine": "small"})
    loaded = json.loads(as_json(outcomes, {"kafka": {"start": [4.0]}}, {"machine": "small"}))
    assert loaded["rows"]["start"]["ratio"] == 0.25
    assert loaded["samples"] == {"kafka": {"start": [4.0]}}


def test_rows_select_their_experiments_in_order() -> None:
    assert selected_experiments([]) == list(EXPERIMENTS)
    assert selected_experiments(["recovery", "batch_1k", "rss_idle"]) == ["throughput", "recovery"]
    with pytest.raises(ValueError, match="no row or experiment named speed"):
        selected_experiments(["speed"])


def test_every_experiment_has_a_function() -> None:
    assert tuple(EXPERIMENT_FUNCTIONS) == EXPERIMENTS


def test_assignments_read_back() -> None:
    assert decode_assignment(encode_assignment("topic", range(2, 20, 5))) == {2, 7, 12, 17}
    assert decode_assignment(encode_assignment("topic", range(0))) == frozenset()
    assert decode_assignment(b"") == frozenset()


class IdleMember(LightMember):
    """A member whose state a test sets."""

    def __init__(self, generation: int, owned: set[int], *, settled: bool = True) -> None:
        self.generation, self.owned, self.settled = generation, frozenset(owned), settled

    async def step(self) -> None:
        """Never called."""

    async def leave(self) -> None:
        """Never called."""


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([IdleMember(3, {0, 1}), IdleMember(3, {2})], True),
        ([IdleMember(3, {0, 1}), IdleMember(3, {1})], False),
        ([IdleMember(3, {0, 1}), IdleMember(3, set())], False),
        ([IdleMember(3, {0, 1, 2}), IdleMember(3, set())], False),
        ([IdleMember(3, {0, 1}), IdleMember(2, {2})], False),
        ([IdleMember(3, {0, 1}), IdleMember(3, {2}, settled=False)], False),
    ],
)
def test_a_group_is_stable_when_every_partition_has_one_owner(members: list[LightMember], expected: bool) -> None:
    assert is_stable(members, 3) is expected


def test_profile_summary_counts_own_and_total_time() -> None:
    text = summary(["main;serve;parse 3", "main;serve 1", "main;main;idle 4"])
    own, total = text.split("time with callees")
    assert "50.0%  idle" in own
    assert "12.5%  serve" in own
    assert "100.0%  main" in total
    assert "50.0%  serve" in total


def test_every_cluster_experiment_has_rows_and_a_function() -> None:
    assert tuple(CLUSTER_EXPERIMENTS) == tuple(dict.fromkeys(row.experiment for row in CLUSTER_ROWS))
    assert {row.key for row in CLUSTER_ROWS if row.experiment == "failover"} == set(FAILOVERS)
    assert selected_experiments(["both_kill", "creation"], CLUSTER_ROWS) == ["failover", "partitions"]


def test_every_tier_experiment_has_rows_and_a_function() -> None:
    assert tuple(TIER_EXPERIMENTS) == tuple(dict.fromkeys(row.experiment for row in TIER_ROWS))


@pytest.mark.parametrize(
    ("open_files", "maps", "topics"), [(20_000, 65_530, 190), (100_000, 65_530, 302), (100_000, 262_144, 500)]
)
def test_kafka_gets_as_many_partitions_as_the_limits_allow(open_files: int, maps: int, topics: int) -> None:
    assert fitting(PartitionWork(500, 100), open_files, maps) == PartitionWork(topics, 100)


def test_every_experiment_on_moves_fills_rows() -> None:
    assert MOVES.experiments is MOVE_EXPERIMENTS
    assert MANY_PARTITIONS.experiments is PARTITION_EXPERIMENTS
    assert tuple(PARTITION_EXPERIMENTS) == tuple(dict.fromkeys(row.experiment for row in PARTITION_ROWS))
    assert tuple(MOVE_EXPERIMENTS) == tuple(dict.fromkeys(row.experiment for row in MOVE_ROWS))
    assert selected_experiments(["lookup", "copy_s3_memory"], TIER_ROWS) == ["copy_s3", "metadata"]
    assert selected_experiments(["copy", "latency"], TIER_ROWS) == ["copy_s3", "copy_file", "latency"]


def test_suites_of_small_tests_run_with_a_broker_per_file(tmp_path: Path) -> None:
    work = TestkitWork(tests=2, files=2)
    write_suite(tmp_path, "crabka", "module", work)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conftest.py", "test_0.py", "test_1.py"]
    assert all(value > 0 for value in run_tests(tmp_path))
    assert {f"{what}_{scope}" for what in ("suite", "cpu") for scope in SCOPES["crabka"]} == {
        row.key for row in TESTKIT_ROWS
    }
    assert {row.experiment for row in TESTKIT_ROWS} == set(TESTKIT_EXPERIMENTS)


@pytest.mark.parametrize(
    ("key", "kafka", "crabka", "verdict"),
    [
        ("copy_s3", None, 0.79, "NOT MET"),
        ("copy_file", None, 0.8, "met"),
        ("copy_s3_memory", None, 100.1, "NOT MET"),
        ("read_s3", None, 0.7, "met"),
        ("read_local", 100.0, 149.0, "NOT MET"),
        ("read_local", 100.0, 150.0, "met"),
        ("read_local_cpu", 4.0, 1.7, "NOT MET"),
        ("read_local_cpu", 4.0, 1.6, "met"),
        # How Kafka does is shown, and does not excuse us.
        ("produce_slowdown", 5.0, 1.4, "NOT MET"),
        ("produce_slowdown", 1.0, 1.3, "met"),
        ("replay", None, 99_999.0, "NOT MET"),
        ("restart", None, 2.0, "met"),
        ("lookup", None, 5.1, "NOT MET"),
        ("segment_memory", None, 1_000.0, ""),
    ],
)
def test_tier_rows_have_the_bars_of_the_spec(key: str, kafka: float | None, crabka: float, verdict: str) -> None:
    (row,) = [row for row in TIER_ROWS if row.key == key]
    assert judge(row, kafka, crabka).verdict == verdict


def test_a_row_that_only_crabka_has_is_measured_on_crabka_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def copying(broker: str, work: int, _watch: object) -> Iterator[tuple[str, float]]:
        if broker == "crabka":
            yield "copy_file", 0.1 * work

    def draw(path: Path) -> bool:
        path.touch()
        return True

    monkeypatch.setattr("bench.suite.RESULTS", tmp_path)
    monkeypatch.setattr("bench.report.RESULTS", tmp_path)
    suite = Suite("bench.tier", TIER_ROWS, {"copy_file": copying}, full=9, quick=7, setting="here", name="t", draw=draw)
    assert run_suite(suite, ["--only", "copy_file"]) == 0
    assert run_suite(suite, ["--only", "copy_file", "--quick"]) == 1
    assert run_suite(suite, ["--only", "copying"]) == 2
    assert "kafka:" not in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"t.json", "t.md", "t-times.png"}
    assert json.loads((tmp_path / "t.json").read_text())["samples"] == {
        "kafka": {},
        "crabka": {"copy_file": [0.7000000000000001]},
    }


def test_sections_can_be_measured_one_by_one_and_a_failure_takes_nothing_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def copying(broker: str, work: int, _watch: object) -> Iterator[tuple[str, float]]:
        if broker == "crabka":
            yield "copy_file", 0.1 * work

    def reading(broker: str, work: int, _watch: object) -> Iterator[tuple[str, float]]:
        if broker == "kafka":
            raise RuntimeError("does not start")
        yield "read_local", 10.0 * work

    monkeypatch.setattr("bench.suite.RESULTS", tmp_path)
    monkeypatch.setattr("bench.report.RESULTS", tmp_path)
    experiments = {"copy_file": copying, "read_local": reading}
    suite = Suite("bench.tier", TIER_ROWS, experiments, full=9, quick=7, setting="here", name="t")
    assert run_suite(suite, ["--only", "copy_file", "--merge"]) == 0
    assert run_suite(suite, ["--only", "read_local", "--merge", "--runs", "2"]) == 1
    reported = capsys.readouterr()
    assert "failed: read_local 1/2 kafka, read_local 2/2 kafka" in reported.err
    assert "RuntimeError: does not start" in reported.err
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["samples"]["crabka"] == {"copy_file": [0.9] * 3, "read_local": [90.0, 90.0]}
    assert (found["rows"]["copy_file"]["verdict"], found["rows"]["read_local"]["verdict"]) == ("met", "")
    assert run_suite(suite, ["--only", "copy_file", "--merge", "--quick"]) == 2
    assert "does not go with 7" in capsys.readouterr().err
    # By default nothing of earlier runs is kept.
    assert run_suite(suite, ["--only", "copy_file"]) == 0
    assert json.loads((tmp_path / "t.json").read_text())["samples"]["crabka"] == {"copy_file": [0.9] * 3}


def test_the_suite_of_the_tier_is_complete(tmp_path: Path) -> None:
    assert TIER.rows is TIER_ROWS
    assert TIER.experiments is TIER_EXPERIMENTS
    assert TIER.draw is draw_latency
    assert not draw_latency(tmp_path / "plot.png")


@pytest.mark.allow_leaks("matplotlib keeps fonts open")
@pytest.mark.parametrize("name", KEPT)
def test_plots_of_the_kept_results_can_be_read(name: str) -> None:
    found = json.loads((RESULTS / f"{name}.json").read_text())
    suite = KEPT[name]
    report = suite.report(found["samples"], found["facts"])
    figure = comparison_figure(report)
    assert figure is not None
    assert unreadable_texts(figure) == []
    assert any(text.startswith(f"{suite.subject}: Crabka against {suite.baseline}") for text in texts_of(figure))
    assert (RESULTS / f"{name}.md").read_text() == markdown(
        report.outcomes, report.facts, report.baseline, report.subject
    )
    titles = [outcome.row.title for outcome in report.outcomes]
    assert len(set(titles)) == len(titles), "each row is understood by itself"


def test_numbers_without_a_broker_are_not_compared() -> None:
    facts = {"machine": "small", "runs": "median of 1, here", "date": "today"}
    samples = {"kafka": {"cp_rate": [1.0]}, "crabka": {"cp_rate": [2.0]}}
    assert comparison_figure(MOVES.report(samples, facts)) is None


@pytest.mark.allow_leaks("matplotlib keeps fonts open")
def test_latencies_are_drawn_by_windows_of_time(tmp_path: Path) -> None:
    timed = [(0.1, 1.0), (0.4, 9.0), (0.6, 3.0), (2.2, 4.0)]
    assert windows(timed) == [(0.25, 9.0), (0.75, 3.0), (2.25, 4.0)]
    phases = Phases(alone=timed, beside=[(3.0, 18.0)])
    assert (phases.p99(is_reading=False), phases.p99(is_reading=True)) == (9.0, 18.0)
    draw_phases({"kafka": phases, "crabka": phases}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_events_of_the_metadata_experiment_make_finished_segments() -> None:
    manager = InmemoryRemoteLogMetadataManager()
    for event in copies(2 * len(PARTITIONS)):
        if isinstance(event, RemoteLogSegmentMetadata):
            manager.add_remote_log_segment_metadata(event)
        else:
            assert isinstance(event, RemoteLogSegmentMetadataUpdate)
            manager.update_remote_log_segment_metadata(event)
    for partition in PARTITIONS:
        assert manager.highest_offset_for_epoch(partition, 0) == 2 * SEGMENT_OFFSETS - 1
        assert len(list(manager.list_remote_log_segments(partition))) == 2


@pytest.mark.allow_leaks("obstore keeps its threads")
def test_copies_are_measured_and_leave_nothing(tmp_path: Path) -> None:
    storage = LocalTieredStorage()
    storage.configure({"dir": str(tmp_path / "tier")})
    found = measured(storage, partial(upload_to_directory, tmp_path / "plain"), 1 << 20, tmp_path / "files")
    assert set(found) == {"rate", "plain_rate", "of_plain", "memory"}
    assert found["of_plain"] == pytest.approx(found["rate"] / found["plain_rate"])
    left = [path for name in ("tier", "plain") for path in (tmp_path / name).rglob("*") if path.is_file()]
    assert left == []


def test_growth_of_memory_is_that_of_the_peak() -> None:
    with peak_growth() as grown:
        block = bytearray(b"x") * (64 << 20)
        del block
        assert 60 < grown() < 100


def test_the_suite_of_spark_is_complete() -> None:
    assert SPARK.experiments is SPARK_EXPERIMENTS
    assert tuple(SPARK_EXPERIMENTS) == tuple(dict.fromkeys(row.experiment for row in SPARK_ROWS))


@pytest.mark.parametrize(
    ("key", "kafka", "crabka", "verdict"),
    [
        ("read", 1e6, 1.9e6, "NOT MET"),
        ("read", 1e6, 2.8e6, "stretch"),
        ("parquet", 4e5, 1.6e6, "met"),
        ("filter", 1e6, 1e7, "met"),
        ("filter_bytes", None, 3.1, "NOT MET"),
        ("count", 1e6, 3e6, "met"),
        ("broker_bytes", 1e8, 0.0, "met"),
        ("broker_bytes", 1e8, 1.0, "NOT MET"),
        ("memory", None, 513.0, "NOT MET"),
    ],
)
def test_spark_is_judged_by_its_bars(key: str, kafka: float | None, crabka: float, verdict: str) -> None:
    (row,) = (row for row in SPARK_ROWS if row.key == key)
    assert judge(row, kafka, crabka).verdict == verdict


@pytest.mark.parametrize("number", [0, 1, 4_999_999])
def test_values_of_the_topic_for_spark_have_a_hundred_bytes(number: int) -> None:
    assert len(value_of(number)) == 100
    assert json.loads(value_of(number))["order"] == number


def test_records_that_cannot_be_spread_evenly_are_refused() -> None:
    with pytest.raises(ValueError, match="spread evenly"):
        SparkPlace().topic(SPARK_PARTITIONS + 1)
