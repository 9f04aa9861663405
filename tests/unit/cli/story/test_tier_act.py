"""The second act of the tour, with a broker that follows a script; the whole of it is in test_story."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from crabka.cli.story import tier_act as story_tier
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOwner
from crabka.clients.fetcher.offsets import EARLIEST_LOCAL, LATEST_TIERED, OffsetAndTimestamp
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class ScriptedTierAdmin:
    """Answers with the next state of a script each time the tiered offsets are asked for."""

    def __init__(self, *states: tuple[dict[TopicPartition, int], dict[TopicPartition, int]]) -> None:
        self._states = list(states)
        self.changes: list[tuple[str, dict[str, str | None]]] = []

    async def alter_configs(self, owner: ConfigOwner, changes: Sequence[ConfigChange]) -> None:
        self.changes.append((owner.name, {change.name: change.value for change in changes}))

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        tiered, local = self._states[0]
        (kind,) = set(wanted.values())
        if kind == EARLIEST_LOCAL and len(self._states) > 1:
            self._states.pop(0)
        offsets = {LATEST_TIERED: tiered, EARLIEST_LOCAL: local}[kind]
        return {partition: OffsetAndTimestamp(offsets[partition], -1, 0) for partition in wanted}


def admin_of(script: ScriptedTierAdmin) -> Admin:
    return cast("Admin", cast("Any", script))


def test_progress_adds_up_to_what_was_written() -> None:
    script = ScriptedTierAdmin(
        ({ZERO: 9, ONE: -1}, {ZERO: 0, ONE: 0}),
        ({ZERO: 14, ONE: 24}, {ZERO: 10, ONE: 0}),
        ({ZERO: 19, ONE: 29}, {ZERO: 20, ONE: 30}),
    )
    steps: list[int] = []
    starts, ends = {ZERO: 10, ONE: 20}, {ZERO: 20, ONE: 30}
    asyncio.run(story_tier.send_to_tier(admin_of(script), starts, ends, steps.append))
    assert steps == [0, 10, 10]
    assert script.changes == [("orders", {"local.retention.ms": "1"})]


def test_a_topic_that_stays_on_the_disk_ends_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_tier, "_PATIENCE_S", 0)
    script = ScriptedTierAdmin(({ZERO: -1}, {ZERO: 0}))
    with pytest.raises(CrabkaError, match="did not leave the disk"):
        asyncio.run(story_tier.send_to_tier(admin_of(script), {ZERO: 0}, {ZERO: 5}, lambda _: None))


def test_the_topic_of_an_earlier_tour_comes_back_to_the_disk() -> None:
    script = ScriptedTierAdmin()
    asyncio.run(story_tier.keep_on_disk(admin_of(script), "orders"))
    ((topic, settings),) = script.changes
    assert topic == "orders"
    assert settings["local.retention.ms"] == "-2"
    assert settings["remote.storage.enable"] == "true"
