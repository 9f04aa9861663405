"""A whole node with a remote tier: metadata in its topic, segments in a directory, on a simulated machine."""

from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.remote.segments import RemoteLogSegmentState
from tests.support.nodes.sim_node import SimNode, batch
from tests.support.nodes.tiered import (
    TIERED_TOPIC,
    delete_topic,
    fill,
    manager_of,
    remote_segments,
    tier_files,
    tiered_node,
)


def test_without_the_setting_there_is_nothing_of_it(node: SimNode) -> None:
    assert (node.context.tiering, node.context.remote_reads) == (None, None)
    node.create_topic("t", internal_segment_bytes="1100")
    fill(node, "t", 3)
    node.advance(60_000)
    assert "__remote_log_metadata" not in node.context.image.topics.by_name


def test_segments_go_to_the_tier_leave_the_disk_and_are_read_from_there() -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC, local_retention_bytes="2200", retention_bytes="100000")
        values = fill(node, "t", 10)
        node.advance(30_000)
        log = node.context.partitions.by_name("t", 0).log
        assert [each.start_offset for each in remote_segments(node, "t")] == list(range(9))
        assert log.log_start_offset == 0
        assert log.local_log_start_offset >= 7
        assert node.values("t") == values


def test_remote_retention_moves_the_log_start() -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC, retention_bytes="5500")
        values = fill(node, "t", 10)
        node.advance(30_000)
        log = node.context.partitions.by_name("t", 0).log
        start = log.log_start_offset
        assert 4 <= start <= 6
        assert [each.start_offset for each in remote_segments(node, "t")] == list(range(start, 9))
        assert node.values("t") == values[start:]


def test_deleting_a_topic_empties_the_tier() -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC)
        fill(node, "t", 5)
        node.advance(20_000)
        assert tier_files(node)
        delete_topic(node, "t")
        node.advance(20_000)
        assert tier_files(node) == []


def test_a_new_topic_of_the_same_name_has_nothing_of_the_old_one() -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC)
        fill(node, "t", 5)
        node.advance(20_000)
        delete_topic(node, "t")
        node.create_topic("t", **TIERED_TOPIC)
        values = fill(node, "t", 3, first=100)
        node.advance(30_000)
        assert [each.start_offset for each in remote_segments(node, "t")] == [0, 1]
        assert node.values("t") == values


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_goes_on_where_it_was(clean: bool) -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC, local_retention_bytes="1100", retention_bytes="100000")
        values = fill(node, "t", 5)
        node.advance(30_000)
        before = [each.segment_id for each in remote_segments(node, "t")]
        assert len(before) == 4
        if clean:
            node.restart()
        else:
            node.crash()
            node.start()
        node.advance(20_000)
        values += fill(node, "t", 2, first=5)
        node.advance(30_000)
        after = remote_segments(node, "t")
        assert [each.segment_id for each in after][:4] == before
        assert [each.start_offset for each in after] == list(range(6))
        assert all(each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED for each in after)
        assert node.values("t") == values


def test_local_data_are_served_before_the_tier_is_at_hand() -> None:
    # A topic with three replicas cannot be made by one broker.
    with tiered_node({"rlmm.config.remote.log.metadata.topic.replication.factor": "3"}) as node:
        node.create_topic("t", **TIERED_TOPIC, local_retention_bytes="1100", retention_bytes="100000")
        values = fill(node, "t", 4)
        node.advance(60_000)
        assert not manager_of(node).is_ready
        assert node.values("t") == values


def test_a_topic_that_is_switched_on_and_off() -> None:
    with tiered_node() as node:
        node.create_topic("t", internal_segment_bytes="1100", file_delete_delay_ms="0")
        values = fill(node, "t", 4)
        node.advance(10_000)
        assert tier_files(node) == []
        assert node.set_configs(2, "t", remote_storage_enable="true") == 0
        node.advance(20_000)
        assert len(remote_segments(node, "t")) == 3
        assert node.set_configs(2, "t", remote_storage_enable="false", remote_log_delete_on_disable="true") == 0
        node.advance(20_000)
        assert tier_files(node) == []
        assert node.values("t") == values


def test_the_metadata_topic_is_not_tiered_itself() -> None:
    with tiered_node({"log.segment.bytes": "1048576"}) as node:
        node.create_topic("t", **TIERED_TOPIC)
        node.produce("t", batch(b"a"))
        node.advance(20_000)
        tiered = {name.topic for name in manager_of(node)._hosted}
        assert tiered == {"t"}


def test_a_storage_that_is_none_is_reported_at_the_start() -> None:
    node = tiered_node({"remote.log.storage.manager.class.name": "no.such:Class"})
    with pytest.raises(ConfigError, match=r"no\.such"):
        node.start()
    node.__exit__(None, None, None)


def test_a_failed_log_dir_ends_the_tiering_of_its_partitions() -> None:
    with tiered_node(log_dirs=("/d1", "/d2")) as node:
        node.create_topic("t", 2, **TIERED_TOPIC)
        node.advance(5000)
        dirs = {node.context.partitions.by_name("t", index).log.log_dir: index for index in (0, 1)}
        assert set(dirs) == {"/d1", "/d2"}
        node.fail_dir("/d2")
        assert [name.partition for name in manager_of(node)._hosted] == [dirs["/d1"]]
