"""Unclean elections of the metadata topic: every node knows what the topic says now, and nothing from before.

A failure names its seed: `MetadataHistoryWorld(seed).run()` repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from crabka.remote_topic import event_fetcher, snapshot_keeper
from crabka.remote_topic.event_batches import Portion, portions
from crabka.remote_topic.snapshot import Snapshot
from tests.support.scale import scaled
from tests.support.tier_topic.history import HistoryError, MetadataHistoryWorld

SEEDS = range(scaled(10, 500))
MAX_SEEDS = 100


@pytest.mark.parametrize("seed", SEEDS)
def test_all_nodes_know_what_the_topic_says_after_any_leader(seed: int) -> None:
    MetadataHistoryWorld(seed).run()


def test_histories_of_the_topic_reach_what_they_are_there_for() -> None:
    worlds = [MetadataHistoryWorld(seed) for seed in range(1000, 1005)]
    for world in worlds:
        world.run()
    assert sum(world.unclean_count for world in worlds) > 10
    assert sum(world.quiet_count for world in worlds) > 10
    assert sum(world.doubt_count for world in worlds) > 10


def read_on_whatever_the_history_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_epochs(data: bytes, start_offset: int, size: int) -> Iterator[Portion]:
        for records, next_offset, _ in portions(data, start_offset, size):
            yield records, next_offset, -1

    monkeypatch.setattr(event_fetcher, "portions", without_epochs)


def keep_no_epoch_in_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_epoch(**fields: Any) -> Snapshot:
        return Snapshot(**{**fields, "leader_epoch": -1})

    monkeypatch.setattr(snapshot_keeper, "Snapshot", without_epoch)


# With a seed that finds the bug; if histories change, another one will.
BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], int]] = [
    (read_on_whatever_the_history_is, 2),
    (keep_no_epoch_in_snapshots, 2),
]


def search(seeds: Iterable[int]) -> None:
    """Live one history after the other. Raises HistoryError."""
    for seed in seeds:
        MetadataHistoryWorld(seed).run()


@pytest.mark.parametrize(("bug", "likely_seed"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_a_bug_in_following_the_history_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], likely_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(HistoryError, match="knows something else"):
        search([likely_seed, *range(MAX_SEEDS)])
