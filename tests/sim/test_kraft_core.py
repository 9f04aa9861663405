"""The consensus core in a world of crashes, partitions and changing voters: the quorum keeps its word in every seed.

A failure names the broken fact and the seed; `python -m tests.support.kraft_sim --seed N` prints every step.
"""

from __future__ import annotations

import pytest

from crabka.kraft.actions import KRaftVersionChange, VotersChange
from tests.support.kraft_sim.__main__ import main
from tests.support.kraft_sim.world import run_world
from tests.support.scale import scaled, soaking
from tests.support.seeds import base_seed

SEEDS_PER_TEST = 20


def first_seed() -> int:
    """The same worlds in every normal run, new ones in a soak."""
    return base_seed() if soaking() else 1


@pytest.mark.parametrize("part", range(scaled(60, 2_400) // SEEDS_PER_TEST))
def test_the_quorum_keeps_its_word(part: int) -> None:
    first = first_seed() + part * SEEDS_PER_TEST
    for seed in range(first, first + SEEDS_PER_TEST):
        run_world(seed)


def test_the_storm_is_one() -> None:
    """The worlds hold what they are there for: elections, cut logs, snapshots, changes of voters and of the level."""
    worlds = [run_world(seed) for seed in range(1, 13)]
    entries = [entry.payload for world in worlds for entry in world.checks.committed]
    assert sum(len(world.checks.leaders) for world in worlds) > 3 * len(worlds)
    assert sum(isinstance(payload, int) for payload in entries) > 20 * len(worlds)
    assert sum(isinstance(payload, VotersChange) for payload in entries) > len(worlds)
    assert sum(isinstance(payload, KRaftVersionChange) for payload in entries) > 0
    assert any(world.snapshots for world in worlds)


def test_controllers_join_by_themselves_in_some_worlds() -> None:
    joined = 0
    for seed in (9, 19, 29, 39):
        world = run_world(seed)
        assert world.auto_join
        first = world.first_voters.ids
        changes = [entry.payload.voters for entry in world.checks.committed if isinstance(entry.payload, VotersChange)]
        joined += any(voters.ids - first for voters in changes)
    assert joined > 0


def test_disks_rot_in_some_worlds_two_at_once_where_there_are_five_voters() -> None:
    worlds = [run_world(seed) for seed in (*range(10, 101, 10), *range(6, 107, 10))]
    rotten = [(len(world.first_voters), world.faults.most_rotten) for world in worlds]
    assert sum(count > 0 for _, count in rotten) > len(rotten) // 2
    assert max(count for voters, count in rotten if voters == 5) >= 2


def test_a_seed_gives_its_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1"]) == 0
    story = capsys.readouterr().out
    assert "Candidate -> Leader" in story
    assert "the world heals" in story


def test_a_seed_always_gives_the_same_story() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        run_world(3, story.append)
    assert stories[0] == stories[1]


def test_a_search_counts_its_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "5"]) == 0
    assert capsys.readouterr().out == "2 seeds, 0 broken\n"
