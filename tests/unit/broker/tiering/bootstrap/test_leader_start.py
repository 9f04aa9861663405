"""Where a leader begins whose disk lost the log: after what the tier holds, with the history that leads up to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crabka.broker.tiering.bootstrap import leader_start
from crabka.broker.tiering.bootstrap.follower_bootstrap import FollowerStart
from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.broker.tiering.bootstrap.leader_start import LeaderStart, continues, last_finished
from crabka.broker.tiering.expire.orphans import OrphanSweep
from crabka.broker.tiering.metadata.tier_metadata import TierMetadata
from crabka.formats.file_names import LOG_SUFFIX
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.errors import NotReadyError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.removal_notice import new_removal_notice
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from crabka.testing.remote_samples import sample_update
from tests.support.nodes.sim_node import SimNode, batch, row
from tests.support.nodes.tiered import (
    TIERED_TOPIC,
    delete_topic,
    fill,
    manager_of,
    remote_segments,
    tier_files,
    tiered_node,
)
from tests.support.tiers.segment_metadata import FINISHED, ORDERS, STARTED, remote_segment

TOPIC = {**TIERED_TOPIC, "local_retention_bytes": "1", "retention_ms": "-1"}
DIRECTORY = "/d1/t-0"


@pytest.fixture
def node() -> Iterator[SimNode]:
    with tiered_node() as node:
        yield node


def start_tiered(node: SimNode, count: int = 6) -> list[bytes]:
    """Produce so many segments; return the values of those that are in the tier."""
    node.create_topic("t", **TOPIC)
    values = fill(node, "t", count)
    node.advance(10_000)
    end = remote_segments(node, "t")[-1].end_offset
    assert end >= count - 2
    return values[: end + 1]


def lose_segments(node: SimNode, first: int = 0) -> None:
    """Remove the segments from an offset on from the disk of a node that is stopped."""
    for name in node.memory.listdir(DIRECTORY):
        if name.endswith(LOG_SUFFIX) and int(name.split(".")[0]) >= first:
            node.memory.unlink(f"{DIRECTORY}/{name}")
    node.memory.fsync_dir(DIRECTORY)


async def never_settle(*_args: object) -> None:
    """Take the place of `LeaderStart.settle` while the tier cannot be reached."""
    raise NotReadyError("the tier does not answer")


def earliest_and_latest(node: SimNode) -> list[int]:
    offsets = []
    for timestamp in (-2, -1):
        wanted = row("ListOffsetsPartition", partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        topic = row("ListOffsetsTopic", name="t", partitions=[wanted])
        answer = node.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[topic])
        offsets.append(answer.topics[0].partitions[0].offset)
    return offsets


@pytest.mark.parametrize("is_crash", [False, True])
@pytest.mark.parametrize("loses_directory", [False, True])
def test_a_leader_that_lost_its_log_goes_on_after_the_tier(
    node: SimNode, caplog: pytest.LogCaptureFixture, *, is_crash: bool, loses_directory: bool
) -> None:
    values = start_tiered(node)
    if is_crash:
        node.crash()
    else:
        node.stop()
    if loses_directory:
        for name in node.memory.listdir(DIRECTORY):
            node.memory.unlink(f"{DIRECTORY}/{name}")
        node.memory.rmdir(DIRECTORY)
        node.memory.fsync_dir("/d1")
    else:
        lose_segments(node)
    node.start()
    # Nothing is given out before it is known where the tier ends.
    refused = node.produce("t", batch(b"too early"))
    assert refused.error_code == ErrorCode.not_leader_or_follower
    node.advance(10_000)
    assert earliest_and_latest(node) == [0, len(values)]
    written = node.produce("t", batch(b"new"))
    assert (written.error_code, written.base_offset) == (ErrorCode.none, len(values))
    assert node.values("t") == [*values, b"new"]
    assert f"the tier holds it up to {len(values) - 1}: it continues at {len(values)}, and begins at 0" in caplog.text
    # All of it is one history: retention and copies go on, also after another start.
    more = fill(node, "t", 3, first=100)
    node.advance(10_000)
    node.restart()
    node.advance(5_000)
    assert node.values("t") == [*values, b"new", *more]
    assert [segment.start_offset for segment in remote_segments(node, "t")] == sorted(
        {segment.start_offset for segment in remote_segments(node, "t")}
    )


def test_producers_go_on_where_they_were(node: SimNode) -> None:
    node.create_topic("t", **TOPIC)
    producer: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0}
    for sequence in range(5):
        value = bytes(1000)
        assert node.produce("t", batch(value, base_sequence=sequence, **producer)).error_code == 0
    node.advance(10_000)
    tiered = remote_segments(node, "t")[-1].end_offset + 1
    node.stop()
    lose_segments(node)
    node.start()
    node.advance(10_000)
    again = node.produce("t", batch(bytes(1000), base_sequence=tiered - 1, **producer))
    assert (again.error_code, again.base_offset) == (ErrorCode.none, tiered - 1), "it is in the tier"
    later = node.produce("t", batch(bytes(1000), base_sequence=tiered, **producer))
    assert (later.error_code, later.base_offset) == (ErrorCode.none, tiered)


def test_a_log_that_lost_its_last_segments_goes_on_after_the_tier(node: SimNode) -> None:
    node.create_topic("t", **{**TOPIC, "local_retention_bytes": "-1"})
    values = fill(node, "t", 6)
    node.advance(10_000)
    tiered = remote_segments(node, "t")[-1].end_offset + 1
    assert tiered >= 4
    node.stop()
    lose_segments(node, 2)
    node.start()
    assert node.produce("t", batch(b"too early")).error_code == ErrorCode.not_leader_or_follower
    node.advance(10_000)
    assert node.produce("t", batch(b"new")).base_offset == tiered
    assert node.values("t") == [*values[:tiered], b"new"]


def test_ordinary_partitions_are_led_at_once(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    settle = LeaderStart.settle

    async def note(start: LeaderStart, name: TopicIdPartition, *others: Any) -> None:
        searched.append(name.topic)
        await settle(start, name, *others)

    monkeypatch.setattr(LeaderStart, "settle", note)
    node.create_topic("t", **TOPIC)
    node.create_topic("short", **TOPIC)
    node.create_topic("plain")
    for topic in ("t", "short", "plain"):
        assert node.produce(topic, batch(b"first")).error_code == ErrorCode.none
    fill(node, "t", 3)
    node.advance(10_000)
    for stop in (node.stop, node.crash):
        stop()
        node.start()
        for topic in ("t", "short", "plain"):
            assert node.produce(topic, batch(b"more")).error_code == ErrorCode.none
    assert searched == []


def test_a_log_without_records_is_compared_with_the_tier_at_every_start(node: SimNode) -> None:
    node.create_topic("empty", **TOPIC)
    node.restart()
    assert node.produce("empty", batch(b"too early")).error_code == ErrorCode.not_leader_or_follower
    node.advance(5_000)
    assert node.produce("empty", batch(b"first")).base_offset == 0


def test_a_topic_that_leaves_the_tier_has_nothing_to_wait_for(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    start_tiered(node)
    node.stop()
    lose_segments(node)
    monkeypatch.setattr(LeaderStart, "settle", never_settle)
    node.start()
    node.advance(60_000)
    assert node.produce("t", batch(b"refused")).error_code == ErrorCode.not_leader_or_follower
    node.set_configs(2, "t", **{**TOPIC, "remote_storage_enable": "false", "remote_log_delete_on_disable": "true"})
    assert node.produce("t", batch(b"taken")).error_code == ErrorCode.none
    assert manager_of(node)._searches == {}


def test_a_topic_is_deleted_while_its_end_is_searched(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sweep_nothing(*_args: object) -> None:
        pass

    # It would find the rest, some time later.
    monkeypatch.setattr(OrphanSweep, "run_once", sweep_nothing)
    start_tiered(node)
    node.stop()
    lose_segments(node)
    node.start()
    assert tier_files(node)
    delete_topic(node, "t")
    node.advance(60_000)
    assert manager_of(node)._searches == {}
    assert tier_files(node) == []
    node.create_topic("t", **TOPIC)
    assert node.produce("t", batch(b"first")).base_offset == 0


def test_a_removal_that_was_only_announced_is_withdrawn_first(node: SimNode) -> None:
    values = start_tiered(node)
    name = TopicIdPartition(node.context.image.topics.by_name["t"].topic_id, "t", 0)
    notice = new_removal_notice(name, uuid.UUID(int=77), broker_id=9, now_ms=node.clock.now_ms())
    node.stop()
    lose_segments(node)
    node.start()
    # The leader before this one stopped between the announcement and the removal.
    metadata = manager_of(node).tools.metadata
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaderStart, "settle", never_settle)
        node.advance(5_000)
        node.run(metadata.add_segment(notice))
    node.advance(60_000)
    assert node.produce("t", batch(b"new")).base_offset == len(values)
    assert node.values("t") == [*values, b"new"]


def test_the_newest_history_decides_where_the_tier_ends() -> None:
    cut_off = remote_segment(0, 199, epochs=[(0, 0)])
    newest = remote_segment(100, 149, epochs=[(2, 100)])
    under_way = remote_segment(150, 300, epochs=[(3, 150)], state=STARTED)
    assert last_finished([cut_off, newest, under_way]) is newest
    assert last_finished([under_way]) is None
    assert cut_off.state is FINISHED


@pytest.mark.parametrize(
    ("local", "end", "does"),
    [
        ([], 0, True),
        ([(0, 0)], 50, True),
        ([(0, 0), (1, 100)], 150, True),
        # The log start has moved, here or there.
        ([(0, 20)], 50, True),
        ([(0, 0), (1, 100)], 300, True),
        # The log has more than the tier.
        ([(0, 0), (1, 100)], 301, False),
        # An epoch of its own, where the tier has another one.
        ([(0, 0), (2, 80)], 90, False),
        ([(0, 0), (1, 90)], 95, False),
        ([(0, 0)], 101, False),
        ([(5, 0)], 10, False),
    ],
)
def test_only_the_beginning_of_the_same_history_is_continued(
    local: list[tuple[int, int]], end: int, *, does: bool
) -> None:
    assert continues([(0, 10), (1, 100)], 300, local, end) is does


@pytest.mark.parametrize(
    ("in_tier", "does"),
    [
        ([(0, 9), (10, 19), (20, 26)], True),
        # Retention has passed the log by.
        ([(26, 26)], True),
        ([(10, 19), (20, 26)], True),
        # There is a hole after what the log has.
        ([(0, 9), (26, 26)], False),
        ([(10, 17), (26, 26)], False),
    ],
)
def test_a_log_is_given_up_for_a_tier_that_has_it_or_begins_after_it(
    in_tier: list[tuple[int, int]], *, does: bool
) -> None:
    metadata = InmemoryRemoteLogMetadataManager()
    for start, end in in_tier:
        added = remote_segment(start, end, state=STARTED)
        metadata.add_remote_log_segment_metadata(added)
        metadata.update_remote_log_segment_metadata(sample_update(added, FINISHED))
    epochs = LeaderEpochCache([(0, 9)])
    log: Any = SimpleNamespace(log_end_offset=19, local_log_start_offset=9, leader_epochs=epochs)
    settling = LeaderStart(cast("TierMetadata", metadata), cast("FollowerTier", None))
    start_after = FollowerStart(27, [(0, 0)], b"")
    assert settling.may_replace(ORDERS, log, start_after, in_tier[0][0]) is does


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("is_crash", [False, True])
def test_a_stop_before_the_end_is_known_changes_nothing(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, first: int, *, is_crash: bool
) -> None:
    node.create_topic("t", **{**TOPIC, "local_retention_bytes": "-1"})
    values = fill(node, "t", 6)
    node.advance(10_000)
    tiered = remote_segments(node, "t")[-1].end_offset + 1
    node.stop()
    lose_segments(node, first)
    with monkeypatch.context() as patch:
        patch.setattr(LeaderStart, "settle", never_settle)
        for _ in range(2):
            node.start()
            node.advance(60_000)
            assert node.produce("t", batch(b"too early")).error_code == ErrorCode.not_leader_or_follower
            if is_crash:
                node.crash()
            else:
                node.stop()
    node.start()
    node.advance(10_000)
    assert node.produce("t", batch(b"new")).base_offset == tiered
    assert node.values("t") == [*values[:tiered], b"new"]


def test_a_former_leader_that_finishes_a_copy_meanwhile_counts(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    values = start_tiered(node)
    everything = last_finished
    looks: list[int] = []

    def late(segments: Iterable[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata | None:
        listed = sorted(segments, key=lambda each: each.start_offset)
        looks.append(len(listed))
        return everything(listed[:-1] if len(looks) == 1 else listed)

    node.stop()
    lose_segments(node)
    monkeypatch.setattr(leader_start, "last_finished", late)
    node.start()
    node.advance(60_000)
    assert node.produce("t", batch(b"new")).base_offset == len(values)
    assert len(looks) > 2
