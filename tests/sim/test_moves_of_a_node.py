"""Moves of a whole node beside everything else that a log lives with: the tier, the cleaner, transactions, disks."""

from __future__ import annotations

import pytest

from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import disk_failure
from tests.support.moves.node import TWO_DIRS, InterruptedNode, alter, fill, other_dir, place_of, settle, throttle
from tests.support.nodes import tiered as tiers
from tests.support.nodes.sim_node import SimNode, batch, row

THREE_DIRS = ("/d1", "/d2", "/d3")


def test_a_tiered_partition_moves_with_what_is_local_and_goes_on_to_the_tier() -> None:
    node = tiers.tiered_node(log_dirs=TWO_DIRS)
    with node:
        node.create_topic("t", **{**tiers.TIERED_TOPIC, "local_retention_ms": "1", "retention_ms": "-1"})
        values = tiers.fill(node, "t", 6)
        node.advance(15_000)
        log = node.context.partitions.by_name("t", 0).log
        local_start = log.local_log_start_offset
        assert 0 == log.log_start_offset < local_start
        target = other_dir(node)
        alter(node, target, "t", 0)
        settle(node)
        assert (place_of(node), log.log_start_offset, log.local_log_start_offset) == (target, 0, local_start)
        values += tiers.fill(node, "t", 4, first=6)
        node.advance(15_000)
        assert log.local_log_start_offset > local_start
        assert node.values("t") == values
        node.crash()
        node.start()
        log = node.context.partitions.by_name("t", 0).log
        assert (log.log_dir, log.log_start_offset) == (target, 0)
        node.advance(5000)
        assert node.values("t") == values


def test_the_clean_part_of_a_compacted_log_stays_known() -> None:
    settings = {"log.cleaner.backoff.ms": "500"}
    with SimNode(settings, log_dirs=TWO_DIRS) as node:
        node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="300", min_cleanable_dirty_ratio="0.01")
        for number in range(30):
            assert node.produce("t", batch(b"%d" % number, key=b"k")).error_code == 0
        node.advance(2000)
        cleanings = node.context.cleaner.stats.cleanings
        assert cleanings > 0
        source, target = place_of(node), other_dir(node)
        clean = read_offset_checkpoint(node.memory, f"{source}/cleaner-offset-checkpoint")
        alter(node, target, "t", 0)
        settle(node)
        assert read_offset_checkpoint(node.memory, f"{source}/cleaner-offset-checkpoint") == {}
        assert read_offset_checkpoint(node.memory, f"{target}/cleaner-offset-checkpoint") == clean
        assert TopicPartition("t", 0) in clean
        node.restart()
        node.advance(2000)
        assert node.context.cleaner.stats.cleanings == 0


def test_ten_partitions_move_at_once_under_load() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t", 10, segment_bytes="1048576")
        sources = {index: place_of(node, "t", index) for index in range(10)}
        for index in range(10):
            node.produce("t", batch(b"%d" % index), partition=index)
        for path in TWO_DIRS:
            moving = [index for index, source in sources.items() if source != path]
            assert set(alter(node, path, "t", *moving).values()) == {ErrorCode.none}
        for turn in range(5):
            for index in range(10):
                assert node.produce("t", batch(b"%d-%d" % (index, turn)), partition=index).error_code == 0
            node.advance(7)
        settle(node)
        for index, source in sources.items():
            assert place_of(node, "t", index) != source
            assert len(node.values("t", index)) == 6


def test_trimming_while_a_move_runs_is_not_forgotten() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t", segment_bytes="1048576")
        fill(node, 10, value=b"x" * 20_000)
        throttle(node, 100_000)
        target = other_dir(node)
        alter(node, target, "t", 0)
        node.advance(300)
        topics = [
            row("DeleteRecordsTopic", name="t", partitions=[row("DeleteRecordsPartition", partition_index=0, offset=7)])
        ]
        node.ask(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1000)
        throttle(node, None)
        settle(node)
        node.crash()
        node.start()
        log = node.context.partitions.by_name("t", 0).log
        assert (log.log_dir, log.log_start_offset) == (target, 7)


@pytest.mark.parametrize("place", ["move.after_assigned", "move.after_marker", "move.after_future_synced"])
def test_a_source_does_not_pass_for_the_replica_while_the_target_is_away(place: str) -> None:
    """The power fails in the middle of a swap, and the disk with the marker is gone for a while.

    Nothing shows whether the replica went on in the target.
    """
    with InterruptedNode(place, log_dirs=THREE_DIRS) as node:
        alter(node, "/d2", "t", 0)
        node.create_topic("t")
        fill(node, 5)
        node.context.partitions.by_name("t", 0).log.flush()
        node.interruption.action = node.capture
        alter(node, "/d3", "t", 0)
        settle(node)
        node.crash()
        failure = node.disk.add(disk_failure("/d3*"))
        node.start()
        assert node.produce("t", batch(b"x")).error_code == ErrorCode.kafka_storage_error
        node.stop()
        node.disk.remove(failure)
        node.start()
        assert len(node.values("t")) == 5
        settle(node)
        assert len(node.values("t")) == 5


@pytest.mark.parametrize("place", ["move.after_assigned", "move.after_marker"])
def test_an_unfinished_copy_does_not_pass_for_the_replica_while_the_source_is_away(place: str) -> None:
    with InterruptedNode(place, log_dirs=THREE_DIRS) as node:
        alter(node, "/d2", "t", 0)
        node.create_topic("t")
        fill(node, 5)
        node.context.partitions.by_name("t", 0).log.flush()
        node.interruption.action = node.capture
        alter(node, "/d3", "t", 0)
        settle(node)
        node.crash()
        failure = node.disk.add(disk_failure("/d2*"))
        node.start()
        assert node.produce("t", batch(b"x")).error_code == ErrorCode.kafka_storage_error
        node.stop()
        node.disk.remove(failure)
        node.start()
        settle(node)
        assert len(node.values("t")) == 5
