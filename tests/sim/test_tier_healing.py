"""A node that is alone with its tier: damaged batches come back from there, and none go there."""

from __future__ import annotations

import pytest

from tests.support.rotting import flip
from tests.support.tiered_node import TIERED_TOPIC, fill, remote_segments, tiered_node


def test_a_damaged_segment_is_repaired_from_the_tier(caplog: pytest.LogCaptureFixture) -> None:
    with tiered_node() as node:
        node.create_topic("t", 1, **TIERED_TOPIC)
        values = fill(node, "t", 6)
        node.advance(10_000)
        assert len(remote_segments(node, "t")) >= 4
        log = node.context.partitions.by_name("t", 0).log
        path = log.segment_of(2).log_path
        flip(node.memory, path, 300)
        log.report_damage_at(2, "a test says so")
        node.advance(5_000)
        assert not log.is_damaged
        assert node.values("t") == values
    assert "are repaired from the remote tier" in caplog.text


def test_a_damaged_segment_does_not_go_to_the_tier() -> None:
    with tiered_node({"remote.log.manager.task.interval.ms": "30000"}) as node:
        node.create_topic("t", 1, **TIERED_TOPIC)
        node.advance(40_000)
        fill(node, "t", 3)
        log = node.context.partitions.by_name("t", 0).log
        path = log.segment_of(1).log_path
        flip(node.memory, path, 300)
        node.advance(70_000)
        assert [each.end_offset for each in remote_segments(node, "t")] == [0]
        assert log.is_damaged, "it was reported by whoever wanted to copy it"
        flip(node.memory, path, 300)
        log.report_damage_at(1, "a test says so")
        node.advance(120_000)
        assert [each.end_offset for each in remote_segments(node, "t")] == [0, 1]
        assert not log.is_damaged
