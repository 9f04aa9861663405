"""Where batches for repairs come from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.healing.sources import FETCH_BYTES, PartitionSources, ReplicaSource, SourceError, TierSource
from crabka.broker.partition.partition import Partition
from crabka.broker.tiering.read.reader import RemoteFetch, RemoteRecords
from crabka.config.topic import TopicConfig
from crabka.ports import FileRange
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import RecordParts
from crabka.remote.errors import RemoteStorageError
from crabka.testing import InlineThreads, MemoryFileSystem, VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.nodes.peer_brokers import OWN_ID, PeerWorld, among_peers
from tests.support.quorum.images import topic_id_of, with_partitions
from tests.support.storage.small import make_batch, open_test_log

RECORDS = make_batch(2, base_offset=5)


def make_partition(config: TopicConfig | None = None) -> Partition:
    log = open_test_log(config=config)
    return Partition("t", 0, topic_id_of("t"), log, None)  # type: ignore[arg-type]


def fetched(request: ReceivedRequest, *, error: ErrorCode = ErrorCode.none, high_watermark: int = 100) -> Any:
    types = request.types
    data = types.new(
        "PartitionData",
        partition_index=0,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=RECORDS if error is ErrorCode.none else b"",
    )
    topic = types.new("FetchableTopicResponse", topic_id=topic_id_of("t"), partitions=[data])
    return types.message(throttle_time=0, error_code=ErrorCode.none, session_id=0, responses=[topic])


@run_with(among_peers)
async def test_another_broker_is_asked_as_a_consumer_asks(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.FETCH] = fetched
    source = ReplicaSource(world.brokers, 2)
    assert await source.fetch(make_partition(), 5, 7) == RECORDS
    (asked,) = world.peers[2].asked(ApiKey.FETCH)
    (topic,) = asked.body.topics
    (wanted,) = topic.partitions
    assert (wanted.fetch_offset, wanted.current_leader_epoch, wanted.partition_max_bytes) == (5, -1, FETCH_BYTES)
    state = getattr(asked.body, "replica_state", None)
    assert state is None or state.replica_id == -1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"error": ErrorCode.not_leader_or_follower}, "not_leader_or_follower"),
        ({"error": ErrorCode.corrupt_message}, "corrupt_message"),
        ({"high_watermark": 6}, "below 6"),
    ],
)
@run_with(among_peers)
async def test_what_a_broker_does_not_have_committed_is_no_source(
    world: PeerWorld, /, options: dict[str, Any], reason: str
) -> None:
    world.peers[2].answers[ApiKey.FETCH] = lambda request: fetched(request, **options)
    with pytest.raises(SourceError, match=reason):
        await ReplicaSource(world.brokers, 2).fetch(make_partition(), 5, 7)


@run_with(among_peers)
async def test_a_broker_that_is_not_reached_is_no_source(world: PeerWorld, /) -> None:
    with pytest.raises(SourceError, match="not registered"):
        await ReplicaSource(world.brokers, 9).fetch(make_partition(), 5, 7)


class FakeRemoteReads:
    """A tier with one answer."""

    def __init__(self, answer: RemoteRecords | RemoteStorageError) -> None:
        self._answer = answer
        self.asked: list[RemoteFetch] = []

    async def fetch(self, wanted: RemoteFetch, _wait_ms: float) -> RemoteRecords:
        self.asked.append(wanted)
        if isinstance(self._answer, RemoteStorageError):
            raise self._answer
        return self._answer


def from_tier(answer: RemoteRecords | RemoteStorageError) -> bytes:
    loop = VirtualTimeLoop()
    source = TierSource(FakeRemoteReads(answer), InlineThreads(loop))  # type: ignore[arg-type]
    try:
        return loop.run_until_complete(asyncio.wait_for(source.fetch(make_partition(), 5, 7), 60))
    finally:
        loop.close()


def test_the_tier_answers_with_bytes_or_ranges_of_files() -> None:
    file = MemoryFileSystem().open("/segment", create=True)
    file.pwritev([b"xx" + RECORDS], 0)
    assert from_tier(RemoteRecords(RECORDS, None)) == RECORDS
    part = FileRange(file, 2, len(RECORDS), None)
    assert from_tier(RemoteRecords(RecordParts([RECORDS, part]), None)) == RECORDS * 2
    with pytest.raises(SourceError):
        from_tier(RemoteRecords(FileRange(file, 2, 10_000, None), None))
    with pytest.raises(SourceError, match="gone"):
        from_tier(RemoteStorageError("gone"))


def names(world: PeerWorld, partition: Partition, reads: object = None) -> list[str]:
    sources = PartitionSources(
        world.brokers,
        world.runtime.threads,
        node_id=OWN_ID,
        image=lambda: world.image,
        remote_reads=lambda: reads,  # type: ignore[arg-type,return-value]
    )
    return [source.name for source in sources.of(partition)]


@run_with(among_peers)
async def test_the_leader_comes_first_then_others_in_sync_then_the_tier_then_the_rest(world: PeerWorld, /) -> None:
    assert names(world, make_partition()) == []
    world.image = with_partitions(world.image, "t", {"replicas": (2, 1, 3), "isr": (2, 3), "leader": 3})
    two, three = (f"the replica on broker {node_id}" for node_id in (2, 3))
    assert names(world, make_partition()) == [three, two]
    tiered = make_partition(TopicConfig(remote_storage_enable=True))
    assert names(world, tiered, object()) == [three, two, "the remote tier"]
    world.image = with_partitions(world.image, "t", {"replicas": (2, 1, 3), "isr": (1, 3), "leader": 1})
    assert names(world, tiered, object()) == [three, "the remote tier", two]
