"""A node that is alone with its tier: damaged batches come back from there, none go there, none are served from it."""

from __future__ import annotations

import logging

import pytest

from crabka.broker.tiering.read.healing.surveys import LOST_TTL_MS
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.layout import object_path
from tests.support.faults.rotting import flip
from tests.support.nodes.sim_node import SimNode, batch, fetch_body, read_records
from tests.support.nodes.tiered import TIER_DIR, TIERED_TOPIC, fill, remote_segments, tiered_node


def test_a_damaged_segment_is_repaired_from_the_tier(caplog: pytest.LogCaptureFixture) -> None:
    with tiered_node() as node:
        node.create_topic("t", 1, **TIERED_TOPIC)
        values = fill(node, "t", 6)
        node.advance(10_000)
        assert len(remote_segments(node, "t")) >= 4
        log = node.context.partitions.by_name("t", 0).log
        path = log.healing.segment_of(2).log_path
        flip(node.memory, path, 300)
        log.healing.report_damage_at(2, "a test says so")
        node.advance(5_000)
        assert not log.healing.is_damaged
        assert node.values("t") == values
    assert "are repaired from the remote tier" in caplog.text


def test_a_damaged_segment_does_not_go_to_the_tier() -> None:
    with tiered_node({"remote.log.manager.task.interval.ms": "30000"}) as node:
        node.create_topic("t", 1, **TIERED_TOPIC)
        node.advance(40_000)
        fill(node, "t", 3)
        log = node.context.partitions.by_name("t", 0).log
        path = log.healing.segment_of(1).log_path
        for position in (300, 400, 500):
            flip(node.memory, path, position)
        node.advance(70_000)
        assert [each.end_offset for each in remote_segments(node, "t")] == [0]
        assert log.healing.is_damaged, "the copier reported it"
        for position in (300, 400, 500):
            flip(node.memory, path, position)
        log.healing.report_damage_at(1, "a test says so")
        node.advance(120_000)
        assert [each.end_offset for each in remote_segments(node, "t")] == [0, 1]
        assert not log.healing.is_damaged


def tiered_values(node: SimNode) -> tuple[list[bytes], str]:
    """Write records that only the tier has in the end; return them, and the object of the first ones."""
    node.create_topic("t", 1, **TIERED_TOPIC, local_retention_ms="1")
    values = fill(node, "t", 6)
    node.advance(20_000)
    log = node.context.partitions.by_name("t", 0).log
    assert log.local_log_start_offset >= 5
    return values, f"{TIER_DIR}/kafka-tiered-storage/{object_path(remote_segments(node, 't')[0])}"


def test_a_wrong_byte_in_the_tier_is_corrected_for_consumers(caplog: pytest.LogCaptureFixture) -> None:
    with tiered_node() as node:
        values, path = tiered_values(node)
        flip(node.memory, path, 300)
        for _ in range(3):
            assert node.values("t") == values
    lines = [record for record in caplog.records if "corrected by their checksum" in record.getMessage()]
    assert len(lines) == 1


def test_what_is_lost_in_the_tier_is_an_error_of_its_partition_alone(caplog: pytest.LogCaptureFixture) -> None:
    with tiered_node() as node:
        values, path = tiered_values(node)
        node.create_topic("u", 1)
        node.produce("u", batch(b"beside"))
        for position in (300, 400, 500):
            flip(node.memory, path, position)
        codes = []
        for _ in range(10):
            # A fetch that has records of another partition does not wait for the tier.
            body = fetch_body([("t", 0, 0), ("u", 0, 0)])
            damaged, beside = (each.partitions[0] for each in node.ask(ApiKey.FETCH, 12, body).responses)
            assert [record.value for record in read_records(beside.records)] == [b"beside"]
            codes.append(damaged.error_code)
            node.advance(10)
        assert codes[-3:] == [ErrorCode.corrupt_message] * 3
        assert node.fetch("t", 0).error_code == ErrorCode.corrupt_message
        assert [record.value for record in read_records(node.fetch("t", 1).records)] == values[1:]
        for position in (300, 400, 500):
            flip(node.memory, path, position)
        node.advance(LOST_TTL_MS)
        assert node.values("t") == values
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_a_batch_that_no_other_copy_has_is_corrected_in_place(caplog: pytest.LogCaptureFixture) -> None:
    with tiered_node() as node:
        node.create_topic("t", 1, internal_segment_bytes="1100")
        values = fill(node, "t", 3)
        log = node.context.partitions.by_name("t", 0).log
        flip(node.memory, log.healing.segment_of(1).log_path, 300)
        log.healing.report_damage_at(1, "a test says so")
        node.advance(5_000)
        assert not log.healing.is_damaged
        assert node.values("t") == values
    assert "are repaired from their own checksum" in caplog.text
