"""Replay one seed of the simulation of whole clusters, or search many.

python -m tests.support.cluster_sim --seed 17 --trace
python -m tests.support.cluster_sim --seeds 200
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from tests.support.cluster_sim.node_logs import NodeLogs
from tests.support.cluster_sim.world import ClusterWorld, run_world
from tests.support.power_loss.trace import BrokenInvariantError


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="crabka-cluster-sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to search without --seed")
    parser.add_argument("--first", type=int, default=1, help="the first seed to search")
    options = parser.parse_args(arguments)
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    gaps: list[float] = []
    broken = 0
    for seed in seeds:
        started = time.process_time()
        try:
            with NodeLogs(print if options.trace else None):
                world = run_world(seed, listener=print if options.trace else None)
        except BrokenInvariantError as error:
            broken += 1
            text = str(error) if options.seed is not None else f"[{error.name}] {error.message}"
            print(f"seed {seed} ({time.process_time() - started:.1f} s): BROKEN {text}", flush=True)
            continue
        gaps += world.meter.gaps_s
        print(f"seed {seed} ({time.process_time() - started:.1f} s): {_summary(world)}", flush=True)
    if gaps:
        print(f"{len(gaps)} leader kills: median gap {statistics.median(gaps):.2f} s, longest {max(gaps):.2f} s")
    print(f"{len(seeds)} seeds, {broken} broken")
    return 1 if broken else 0


def _summary(world: ClusterWorld) -> str:
    excused = [str(where) for where, ledger in world.model.partitions.items() if ledger.excuses]
    return (
        f"{world.layout.shape.value}, {world.loop.time():.0f} virtual s, "
        f"{world.model.acknowledged_count} acknowledged, "
        f"{world.scene.commits} transactions, {world.operator.changes} changes, excused: {', '.join(excused) or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
