"""Runs the experiments of one table on both brokers in turn, judges and writes the result."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from bench.brokers import BROKERS
from bench.profiler import profiled
from bench.report import KAFKA, RESULTS, Report, read_samples, table
from bench.rows import BenchRow, selected_experiments
from bench.stats import Samples, judge, medians

Watch = Callable[[int], AbstractContextManager[None]]
WorkT = TypeVar("WorkT")
Experiment = Callable[[str, WorkT, Watch], Iterator[tuple[str, float]]]


def unwatched(_pid: int) -> AbstractContextManager[None]:
    """Measure without a profiler."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Suite(Generic[WorkT]):
    """A table: its rows, what fills them, how much work is done in full and to try, and what to say of it."""

    program: str
    rows: Sequence[BenchRow]
    experiments: Mapping[str, Experiment[WorkT]]
    full: WorkT
    quick: WorkT
    setting: str
    name: str
    draw: Callable[[Path], bool] | None = None
    """Draws one more plot, of what the experiments remember; returns False if that is nothing."""
    subject: str = "One broker"
    baseline: str = KAFKA

    def report(self, samples: dict[str, Samples], facts: dict[str, str], experiments: Collection[str] = ()) -> Report:
        """Judge the samples of all rows that have some, or whose experiment was asked for."""
        values = {broker: medians(measured) for broker, measured in samples.items()}
        outcomes = [
            judge(row, values.get("kafka", {}).get(row.key), values.get("crabka", {}).get(row.key))
            for row in self.rows
            if row.experiment in experiments or any(row.key in measured for measured in values.values())
        ]
        return Report(outcomes, samples, facts, self.subject, self.baseline)


def run_suite(suite: Suite[WorkT], arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 if a bar was not met."""
    options = _parser(suite).parse_args(arguments)
    try:
        experiments = selected_experiments(options.only, suite.rows)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    brokers = [options.broker] if options.broker else list(BROKERS)
    work = suite.quick if options.quick else suite.full
    runs = options.runs or (1 if options.quick else 3)
    facts = _facts(f"median of {runs}, brokers alternating, {suite.setting}", str(work))
    try:
        earlier = read_samples(options.name, facts["work"]) if options.merge else {}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    watch = profiled if options.profile else unwatched
    chosen = {name: suite.experiments[name] for name in experiments}
    found, failed = _measure(brokers, chosen, work, runs, watch)
    samples = {broker: earlier.get(broker, {}) | found.get(broker, {}) for broker in {**earlier, **found}}
    report = suite.report(samples, facts, experiments)
    outcomes = report.outcomes
    print("\n" + table(outcomes, suite.baseline) + "\n")
    for path in report.write(options.name):
        print(f"wrote {path}")
    if suite.draw is not None:
        drawn = RESULTS / f"{options.name}-times.png"
        if suite.draw(drawn):
            print(f"wrote {drawn}")
    if options.profile:
        print(f"wrote {RESULTS / 'profile.svg'} and {RESULTS / 'profile.txt'}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed or any(outcome.verdict == "NOT MET" for outcome in outcomes) else 0


def _parser(suite: Suite[WorkT]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=suite.program, description="Measure Crabka against Apache Kafka 4.3.0.")
    parser.add_argument("--quick", action="store_true", help="small counts and one run: to try, not to quote")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="a row, an experiment or its first word; repeatable"
    )
    parser.add_argument("--merge", action="store_true", help="keep what the result file has of other rows")
    parser.add_argument("--runs", type=int, help="runs of each experiment on each broker (3; quick: 1)")
    parser.add_argument("--no-jvm", dest="broker", action="store_const", const="crabka", help="Crabka alone")
    parser.add_argument("--only-jvm", dest="broker", action="store_const", const="kafka", help="Apache Kafka alone")
    parser.add_argument("--profile", action="store_true", help="sample Crabka with py-spy (use with --no-jvm)")
    parser.add_argument("--name", default=suite.name, help=f"name of the result files ({suite.name})")
    return parser


def _measure(
    brokers: list[str], experiments: Mapping[str, Experiment[WorkT]], work: WorkT, runs: int, watch: Watch
) -> tuple[dict[str, Samples], list[str]]:
    """Alternate between the brokers, so that a drift of the machine hits both; return samples and what failed."""
    samples: dict[str, Samples] = {broker: {} for broker in brokers}
    failed: list[str] = []
    for name, experiment in experiments.items():
        for run in range(1, runs + 1):
            for broker in brokers:
                begin = time.perf_counter()
                watching = watch if broker == "crabka" else unwatched
                try:
                    found = dict(experiment(broker, work, watching))
                except Exception:  # noqa: BLE001 - what others have measured in an hour is not to be lost
                    traceback.print_exc()
                    failed.append(f"{name} {run}/{runs} {broker}")
                    continue
                if not found:
                    continue  # only the other broker has what is measured
                for key, value in found.items():
                    samples[broker].setdefault(key, []).append(value)
                shown = ", ".join(f"{key} {value:,.2f}" for key, value in found.items())
                took = time.perf_counter() - begin
                print(f"{name} {run}/{runs} {broker}: {shown} ({took:.0f} s)", flush=True)
    return samples, failed


def _facts(runs: str, work: str) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0))
    return {
        "machine": f"{cores} cores, {platform.machine()}, {platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "runs": runs,
        "work": work,
    }
