"""Replay one seed of the quorum simulation with a readable trace, or search many.

python -m tests.support.kraft_sim --seed 17
python -m tests.support.kraft_sim --seeds 2000
"""

from __future__ import annotations

import argparse
import sys

from tests.support.kraft_sim.checks import BrokenQuorumError
from tests.support.kraft_sim.world import run_world


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="crabka-sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed and print what happens")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to search without --seed")
    parser.add_argument("--first", type=int, default=1, help="the first seed to search")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _replay(options.seed)
    return _search(options.first, options.seeds)


def _replay(seed: int) -> int:
    try:
        world = run_world(seed, print)
    except BrokenQuorumError as error:
        print(f"BROKEN {error}")
        return 1
    print(f"seed {seed}: {world.steps} steps, {len(world.checks.committed)} entries committed")
    return 0


def _search(first: int, seeds: int) -> int:
    broken = 0
    for seed in range(first, first + seeds):
        try:
            run_world(seed)
        except BrokenQuorumError as error:
            broken += 1
            print(f"seed {seed}: {error}", flush=True)
    print(f"{seeds} seeds, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
