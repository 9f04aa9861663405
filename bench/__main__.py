"""`python -m bench`: run the experiments on both brokers in turn and print the table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time

from bench.brokers import BROKERS
from bench.experiments import EXPERIMENT_FUNCTIONS, QUICK, Scale, Watch, unwatched
from bench.profiler import profiled
from bench.report import RESULTS, table, write_all
from bench.rows import ROWS, selected_experiments
from bench.stats import Samples, judge, medians


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 if a bar was not met."""
    options = _parser().parse_args(arguments)
    try:
        experiments = selected_experiments(options.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    brokers = [options.broker] if options.broker else list(BROKERS)
    scale = QUICK if options.quick else Scale()
    runs = options.runs or (1 if options.quick else 3)
    samples = _measure(brokers, experiments, scale, runs, profiled if options.profile else unwatched)
    outcomes = [
        judge(row, medians(samples.get("kafka", {})).get(row.key), medians(samples.get("crabka", {})).get(row.key))
        for row in ROWS
        if row.experiment in experiments
    ]
    facts = _facts(runs, scale)
    print("\n" + table(outcomes) + "\n")
    for path in write_all(options.name, outcomes, samples, facts):
        print(f"wrote {path}")
    if options.profile:
        print(f"wrote {RESULTS / 'profile.svg'} and {RESULTS / 'profile.txt'}")
    return 1 if any(outcome.verdict == "NOT MET" for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure Crabka against Apache Kafka 4.3.0.")
    parser.add_argument("--quick", action="store_true", help="small counts and one run: to try, not to quote")
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help="a row or an experiment; repeatable")
    parser.add_argument("--runs", type=int, help="runs of each experiment on each broker (3; quick: 1)")
    parser.add_argument("--no-jvm", dest="broker", action="store_const", const="crabka", help="Crabka alone")
    parser.add_argument("--only-jvm", dest="broker", action="store_const", const="kafka", help="Apache Kafka alone")
    parser.add_argument("--profile", action="store_true", help="sample Crabka with py-spy (use with --no-jvm)")
    parser.add_argument("--name", default="latest", help="name of the result files")
    return parser


def _measure(brokers: list[str], experiments: list[str], scale: Scale, runs: int, watch: Watch) -> dict[str, Samples]:
    """Alternate between the brokers, so that a drift of the machine hits both."""
    samples: dict[str, Samples] = {broker: {} for broker in brokers}
    for experiment in experiments:
        for run in range(1, runs + 1):
            for broker in brokers:
                begin = time.perf_counter()
                watching = watch if broker == "crabka" else unwatched
                found = dict(EXPERIMENT_FUNCTIONS[experiment](broker, scale, watching))
                for key, value in found.items():
                    samples[broker].setdefault(key, []).append(value)
                shown = ", ".join(f"{key} {value:,.2f}" for key, value in found.items())
                took = time.perf_counter() - begin
                print(f"{experiment} {run}/{runs} {broker}: {shown} ({took:.0f} s)", flush=True)
    return samples


def _facts(runs: int, scale: Scale) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0))
    return {
        "machine": f"{cores} cores, {platform.machine()}, {platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "runs": f"median of {runs}, brokers alternating, each on an empty directory, Kafka with 1 GiB heap and warm",
        "work": str(scale),
    }


if __name__ == "__main__":
    sys.exit(main())
