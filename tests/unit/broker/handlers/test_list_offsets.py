"""ListOffsets over the wire: special timestamps, searches, versions."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms
from crabka.remote.errors import NotReadyError, RemoteBackendError
from crabka.testing import FaultRule, FaultyFileSystem
from crabka.testing.faulty_storage import FaultyStorageManager, StorageFault
from tests.support.coordinators.txn_partitions import end, fake_coordinator, produce, transactional_batch
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of
from tests.support.storage.replicas import fetch_as, give_followers
from tests.support.tiers.remote_reading import TIERED_SETTINGS, NodeTier, faulty_tier, tiered_topic

T0 = 1_767_225_600_000


def find(
    node: SimNode,
    timestamp: int,
    *,
    version: int = 11,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
) -> tuple[ErrorCode, int, int]:
    wanted = row("ListOffsetsPartition", partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    answer = node.ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[row("ListOffsetsTopic", name=topic, partitions=[wanted])],
        timeout=1000,
    )
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset, ms(found.timestamp)


@pytest.fixture
def filled(node: SimNode) -> SimNode:
    """Records at 0, 1, 2 with timestamps T0+10, T0+30, T0+20."""
    node.create_topic("t")
    for delta in (10, 30, 20):
        node.produce("t", batch(b"x", timestamp=T0 + delta))
    return node


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_OFFSETS))
def test_every_version_knows_latest_and_earliest(filled: SimNode, version: int) -> None:
    assert find(filled, -1, version=version) == (ErrorCode.none, 3, -1)
    assert find(filled, -2, version=version) == (ErrorCode.none, 0, -1)
    assert find(filled, T0 + 15, version=version) == (ErrorCode.none, 1, T0 + 30)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [(-3, 7, (1, T0 + 30)), (-4, 8, (0, -1)), (-5, 9, (-1, -1)), (-6, 11, (-1, -1))],
)
def test_special_timestamps_need_their_version(
    filled: SimNode, timestamp: int, since: int, expected: tuple[int, int]
) -> None:
    assert find(filled, timestamp, version=since) == (ErrorCode.none, *expected)
    assert find(filled, timestamp, version=since - 1)[0] is ErrorCode.unsupported_version


def test_unknown_special_timestamps_are_refused(filled: SimNode) -> None:
    assert find(filled, -7)[0] is ErrorCode.unsupported_version


def test_a_time_after_the_last_record_finds_nothing(filled: SimNode) -> None:
    assert find(filled, T0 + 31) == (ErrorCode.none, -1, -1)


def test_the_newest_record_of_an_empty_partition(node: SimNode) -> None:
    node.create_topic("t")
    assert find(node, -3) == (ErrorCode.none, -1, -1)


def test_faults_have_their_own_codes(filled: SimNode) -> None:
    assert find(filled, -1, topic="nope")[0] is ErrorCode.unknown_topic_or_partition
    assert find(filled, -1, partition=3)[0] is ErrorCode.unknown_topic_or_partition
    assert find(filled, -1, epoch=5)[0] is ErrorCode.unknown_leader_epoch
    filled.restart()
    assert find(filled, -1, epoch=0)[0] is ErrorCode.fenced_leader_epoch
    assert find(filled, -1, epoch=2)[0] is ErrorCode.none
    filled.context.partitions.by_name("t", 0).is_leader = False
    assert find(filled, -1)[0] is ErrorCode.not_leader_or_follower


def test_a_disk_that_cannot_be_read_is_reported() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        faulty = FaultyFileSystem(node.memory)
        node.fs = faulty
        node.restart()
        node.create_topic("t", 2)
        lost = next(p for p in node.context.partitions if p.log.log_dir == "/d2").index
        node.produce("t", batch(b"x", timestamp=T0), partition=lost)
        faulty.add(FaultRule(operation="pread", path="/d2/*", error=errno.EIO))
        assert find(node, T0, partition=lost)[0] is ErrorCode.kafka_storage_error
        assert node.context.logs.offline_dirs == ["/d2"]


def test_read_committed_ends_at_the_last_stable_offset(node: SimNode) -> None:
    node.create_topic("t")
    fake_coordinator(node)
    node.produce("t", batch(b"plain", timestamp=T0))
    produce(node, "t", transactional_batch(b"open"))
    assert [find(node, -1, isolation_level=level)[1] for level in (0, 1)] == [2, 1]
    assert [find(node, T0 + 1, isolation_level=level)[1] for level in (0, 1)] == [-1, -1]
    end(node, [("t", 0)], commit=True)
    assert find(node, -1, isolation_level=1)[1] == 3


def find_as(node: SimNode, replica_id: int, timestamp: int, *, version: int = 9) -> tuple[ErrorCode, int]:
    """Ask as a replica (or -1, a consumer, or -2, a tool) in the epoch that is now."""
    wanted = row("ListOffsetsPartition", partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    topics = [row("ListOffsetsTopic", name="t", partitions=[wanted])]
    answer = node.ask(
        ApiKey.LIST_OFFSETS, version, replica_id=replica_id, isolation_level=0, topics=topics, timeout=1000
    )
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


def test_replicas_see_the_log_end(filled: SimNode) -> None:
    give_followers(filled, "t")
    filled.produce("t", batch(b"x", timestamp=T0 + 50), acks=1)
    assert find_as(filled, 2, -1) == (ErrorCode.none, 4)
    assert find_as(filled, 2, T0 + 40) == (ErrorCode.none, 3)
    assert find_as(filled, -1, -1) == (ErrorCode.none, 3)
    assert find_as(filled, -1, T0 + 40) == (ErrorCode.none, -1)


def test_only_a_tool_may_ask_a_follower(filled: SimNode) -> None:
    give_followers(filled, "t", leader=2)
    assert find_as(filled, -2, -1) == (ErrorCode.none, 3)
    assert find_as(filled, 3, -1) == (ErrorCode.not_leader_or_follower, -1)
    assert find_as(filled, -1, -1) == (ErrorCode.not_leader_or_follower, -1)


@pytest.mark.parametrize("version", [4, 5, 9])
def test_a_new_leader_does_not_guess_how_far_consumers_may_read(filled: SimNode, version: int) -> None:
    log = filled.context.partitions.by_name("t", 0).log
    give_followers(filled, "t", leader=2)
    log.set_high_watermark(1)
    give_followers(filled, "t")
    refusal = ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available
    # What is committed for sure is reported.
    assert find_as(filled, -1, T0 + 5, version=version) == (ErrorCode.none, 0)
    assert find_as(filled, -1, -2, version=version) == (ErrorCode.none, 0)
    for timestamp in (-1, T0 + 15, T0 + 100):
        assert find_as(filled, -1, timestamp, version=version) == (refusal, -1)
    assert find_as(filled, 2, -1, version=version) == (ErrorCode.none, 3)
    for follower in (2, 3):
        filled.ask(ApiKey.FETCH, 12, fetch_as(follower, "t", 3))
    assert find_as(filled, -1, -1, version=version) == (ErrorCode.none, 3)


# -- the remote tier ---------------------------------------------------------------------------------------------


@pytest.fixture
def tiered_node() -> Iterator[SimNode]:
    with SimNode(TIERED_SETTINGS) as running:
        yield running


def test_a_tiered_log_begins_in_two_places(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    assert find(tiered_node, -6) == (ErrorCode.none, 0, -1)
    assert find(tiered_node, -5) == (ErrorCode.none, -1, -1)
    tier = NodeTier(tiered_node)
    start = tier.tier("t")
    assert 0 < start < 12
    assert find(tiered_node, -2) == (ErrorCode.none, 0, -1)
    assert find(tiered_node, -4) == (ErrorCode.none, start, -1)
    assert find(tiered_node, -5) == (ErrorCode.none, start - 1, -1)
    assert find(tiered_node, -6) == (ErrorCode.none, start, -1)
    tier.close()


def test_what_is_pending_is_unknown_while_nothing_is_known_of_the_tier(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node)
    tier.tier("t")
    tiered_node.context.partitions.by_name("t", 0).log.tiering.note_remote_offset(-1)
    assert find(tiered_node, -6) == (ErrorCode.none, -1, -1)
    tier.close()


def test_a_timestamp_is_found_in_the_tier_first_and_then_on_the_disk(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t", count=0)
    for number in range(12):
        tiered_node.produce("t", batch(b"x" * 160, timestamp=T0 + number))
    tier = NodeTier(tiered_node)
    start = tier.tier("t")
    for number in (0, start - 1, start, 11):
        assert find(tiered_node, T0 + number) == (ErrorCode.none, number, T0 + number)
    assert find(tiered_node, T0 + 12) == (ErrorCode.none, -1, -1)
    tier.close()


@pytest.mark.parametrize(("version", "seconds"), [(11, 1), (9, 30)])
def test_a_search_in_a_tier_that_hangs_times_out(tiered_node: SimNode, version: int, seconds: int) -> None:
    tiered_topic(tiered_node, "t", partitions=2)
    tier = NodeTier(tiered_node)
    for index in (0, 1):
        tier.tier("t", index)
    tier.hold()
    before = tiered_node.loop.time()
    wanted = [
        row("ListOffsetsPartition", partition_index=index, timestamp=5, current_leader_epoch=-1) for index in (0, 1)
    ]
    answer = tiered_node.ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=[row("ListOffsetsTopic", name="t", partitions=wanted)],
        timeout=1000,
    )
    assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.request_timed_out] * 2
    assert tiered_node.loop.time() - before == pytest.approx(seconds, abs=0.1)
    tier.close()


def test_a_search_in_a_tier_that_fails_is_to_be_tried_again(
    tiered_node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node, faulty_tier)
    tier.tier("t")
    assert isinstance(tier.storage, FaultyStorageManager)
    tier.storage.add(StorageFault(operation="fetch_index", error=RemoteBackendError("away")))
    assert find(tiered_node, 5)[0] is ErrorCode.kafka_storage_error

    def refuse(*_: object) -> None:
        raise NotReadyError("not loaded yet")

    monkeypatch.setattr(tier.rlmm, "list_remote_log_segments", refuse)
    assert find(tiered_node, 5)[0] is ErrorCode.replica_not_available
    tier.close()
