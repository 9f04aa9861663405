"""The pure parts of the benchmarks: statistics, verdicts, table, profile summary, members of groups."""

from __future__ import annotations

import json

import pytest

from bench.cluster import CLUSTER_EXPERIMENTS
from bench.cluster_rows import CLUSTER_ROWS
from bench.experiments import EXPERIMENT_FUNCTIONS
from bench.failover import FAILOVERS
from bench.members import LightMember, decode_assignment, encode_assignment, is_stable
from bench.profiler import summary
from bench.report import as_json, cells, markdown, table
from bench.rows import EXPERIMENTS, ROWS, selected_experiments
from bench.stats import judge, medians, percentile

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
