"""Whole clusters of real nodes under clients and faults, in virtual time.

`python -m tests.support.cluster_sim --seed N --trace` replays a seed; the message of a failure names the invariant.
"""

from __future__ import annotations

import statistics

import pytest

from tests.support.cluster_sim import scripts
from tests.support.cluster_sim.layout import Shape
from tests.support.cluster_sim.world import RunConditions, Script, run_world
from tests.support.scale import scaled

SEEDS = range(1, 1 + scaled(4, 200))
# The defaults of a cluster.
DEFAULT_SESSIONS = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
LONGEST_MEDIAN_GAP_S = 2.0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_through_a_storm_of_faults(seed: int) -> None:
    world = run_world(seed)
    assert world.model.acknowledged_count
    assert world.watch.looks


@pytest.mark.parametrize("seed", range(1, 1 + scaled(2, 50)))
def test_a_cluster_keeps_its_promises_while_replicas_change_their_log_dirs(seed: int) -> None:
    world = run_world(seed, RunConditions(relocates=True))
    assert world.model.acknowledged_count


@pytest.mark.parametrize("seed", [3])
def test_a_seed_gives_the_same_story_twice(seed: int) -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        run_world(seed, listener=story.append)
    assert stories[0] == stories[1]


@pytest.mark.parametrize(
    ("shape", "script"),
    [
        (Shape.SPLIT, scripts.kill_leaders),
        (Shape.COMBINED, scripts.kill_leaders),
        (Shape.COMBINED, scripts.kill_active_controllers),
    ],
    ids=["leaders", "leaders-that-are-controllers", "active-controllers"],
)
def test_writes_go_on_soon_after_a_leader_was_killed(shape: Shape, script: Script) -> None:
    gaps_s: list[float] = []
    for seed in range(1, 1 + scaled(1, 10)):
        conditions = RunConditions(shape=shape, script=script, settings=DEFAULT_SESSIONS, copies=False, operates=False)
        gaps_s += run_world(seed, conditions).meter.gaps_s
    assert len(gaps_s) >= 2
    print(f"{len(gaps_s)} gaps: median {statistics.median(gaps_s):.2f} s, longest {max(gaps_s):.2f} s")
    assert statistics.median(gaps_s) <= LONGEST_MEDIAN_GAP_S


@pytest.mark.parametrize("shape", [Shape.SPLIT, Shape.COMBINED])
def test_an_update_of_all_brokers_one_by_one_loses_nothing(shape: Shape) -> None:
    world = run_world(1, RunConditions(shape=shape, script=scripts.stop_brokers))
    assert not any(ledger.excuses for ledger in world.model.partitions.values())


def test_a_replica_that_lost_durable_records_leaves_the_lead_to_others() -> None:
    conditions = RunConditions(script=scripts.rot_while_stopped, copies=False, operates=False)
    world = run_world(1, conditions)
    assert world.model.acknowledged_count
    assert not any(ledger.excuses for ledger in world.model.partitions.values())


def test_a_cluster_whose_brokers_lose_power_at_once_goes_on_without_an_operator() -> None:
    world = run_world(1, RunConditions(script=scripts.cut_power_of_all, copies=False, operates=False))
    assert world.model.acknowledged_count


def test_a_disk_that_fails_costs_its_own_replicas_and_nothing_else() -> None:
    conditions = RunConditions(script=scripts.fail_disks, copies=False, operates=False)
    world = run_world(1, conditions)
    assert world.model.acknowledged_count
    assert not any(ledger.excuses for ledger in world.model.partitions.values())
