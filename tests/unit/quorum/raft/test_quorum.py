from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from crabka.errors import ConfigError, CrabkaError, InvariantError, OperationError, StorageError
from crabka.kraft.messages import AddVoterRequest, DescribeRequest, RemoveVoterRequest, UpgradeRequest
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import EndTransactionRecord
from crabka.ports import FileSystem, Runtime
from crabka.protocol.apis import ApiKey, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.loading import load_read_only
from crabka.quorum.raft import applier as raft_applier
from crabka.quorum.raft.messages import decode_response, encode_request
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.raft.watch import QuorumLeader
from crabka.quorum.settings import MetadataLogSettings
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from tests.support.async_tests import run_with
from tests.support.quorum.node import (
    DIRECTORY,
    LOG_DIRECTORY,
    QUIET,
    VOTER,
    formatted_disk,
    new_topic,
    run_node,
    topic_config,
)
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.files import GOLDEN

ALONE = QuorumOptions(log=QUIET)


def run_alone(
    fs: FileSystem, main: Callable[[RaftQuorum], Awaitable[Any]], options: QuorumOptions = ALONE, seed: int = 1
) -> Any:
    """Run a quorum of one until it was active and `main` is done, and close it."""

    async def wrapped(runtime: Runtime) -> Any:
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, options)
        try:
            await quorum.wait_active()
            return await main(quorum)
        finally:
            await quorum.close()

    return run_node(fs, wrapped, seed=seed)


async def image_of(quorum: RaftQuorum) -> MetadataImage:
    return quorum.image


@run_with(lambda test: run_alone(formatted_disk(), test))
async def test_a_lone_voter_leads_at_once_with_the_formatted_features_and_voters(quorum: RaftQuorum, /) -> None:
    assert quorum.image.features.metadata_version == 30
    assert quorum.image.configs.get(4, "") == {"min.insync.replicas": "1"}
    assert (quorum.voters, quorum.kraft_version, quorum.leader_epoch) == ((VOTER,), 1, 1)
    assert quorum.next_offset == quorum.high_watermark == 10
    assert asyncio.get_running_loop().time() < 1


@run_with(lambda test: run_alone(formatted_disk(), test))
async def test_appends_get_their_offsets_at_the_call_and_are_in_the_image_when_done(quorum: RaftQuorum, /) -> None:
    base = quorum.next_offset
    waiting = [quorum.append(new_topic(f"t{number}", number)) for number in range(4)]
    assert quorum.next_offset == base + 8
    assert not quorum.image.topics.by_name
    assert await asyncio.gather(*waiting) == [base + 1, base + 3, base + 5, base + 7]
    assert sorted(quorum.image.topics.by_name) == ["t0", "t1", "t2", "t3"]


def test_acknowledged_changes_survive_a_power_cut() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, ALONE)
        await quorum.wait_active()
        await quorum.append(new_topic("kept", 1))
        runtime.threads.kill()  # type: ignore[attr-defined]
        quorum._driver.task.cancel()  # type: ignore[union-attr]

    run_node(fs, main)
    fs.crash()
    image = run_alone(fs, image_of)
    assert list(image.topics.by_name) == ["kept"]


@run_with(lambda test: run_alone(formatted_disk(), test))
async def test_subscribers_see_every_change_in_order(quorum: RaftQuorum, /) -> None:
    seen: list[int] = []
    unsubscribe = quorum.subscribe(lambda _delta, image: seen.append(image.offset))
    for number in range(3):
        await quorum.append(new_topic(f"t{number}", number))
    assert seen == sorted(set(seen))
    assert seen[-1] == quorum.image.offset
    unsubscribe()
    await quorum.append(new_topic("t9", 9))
    assert seen[-1] < quorum.image.offset


@run_with(
    lambda test: run_alone(formatted_disk(), test, QuorumOptions(log=MetadataLogSettings(max_snapshot_interval_ms=0)))
)
async def test_an_idle_leader_writes_records_that_say_nothing(quorum: RaftQuorum, /) -> None:
    before = quorum.next_offset
    await asyncio.sleep(1.3)
    assert quorum.next_offset == before + 2


def test_a_contradiction_kills_the_quorum_and_notifies_its_owner() -> None:
    fs = formatted_disk()

    async def main(quorum: RaftQuorum) -> None:
        reported: list[CrabkaError] = []
        quorum.on_failure = reported.append
        with pytest.raises(InvariantError):
            await quorum.append([EndTransactionRecord()])
        with pytest.raises(InvariantError):
            await quorum.append(new_topic("late", 1))
        assert reported == [quorum.failure]
        assert not quorum.is_active
        body = encode_request(request_types(ApiKey.DESCRIBE_QUORUM, 2), DescribeRequest())
        assert (await quorum.handle(ApiKey.DESCRIBE_QUORUM, 2, body)).error_code is ErrorCode.broker_not_available
        with pytest.raises(InvariantError):
            await quorum.describe()

    run_alone(fs, main)
    # The record never reached the log.
    run_alone(fs, image_of)


def test_a_failing_sync_kills_the_quorum() -> None:
    memory = formatted_disk()
    fs = FaultyFileSystem(memory)

    async def main(quorum: RaftQuorum) -> None:
        fs.add(FaultRule(operation="fsync", path="*.log", error=errno.EIO))
        with pytest.raises(StorageError):
            await quorum.append(new_topic("lost", 1))
        assert isinstance(quorum.failure, StorageError)

    run_alone(fs, main)


@run_with(lambda test: run_alone(formatted_disk(), test))
async def test_a_closed_quorum_takes_nothing_any_more(quorum: RaftQuorum, /) -> None:
    pending = quorum.append(new_topic("last", 1))
    await quorum.close()
    assert await pending == quorum.image.offset
    with pytest.raises(OperationError) as caught:
        await quorum.append(new_topic("late", 2))
    assert caught.value.error_code is ErrorCode.not_controller
    with pytest.raises(OperationError):
        await quorum.describe()


def test_a_voter_without_its_majority_refuses_appends_and_fetches() -> None:
    others = tuple(
        VoterNode(number, UUID(int=number), (VoterEndpoint("CONTROLLER", "127.0.0.1", 1000 + number),))
        for number in (2, 3)
    )

    async def main(runtime: Runtime) -> None:
        options = ALONE._replace(dialer=Unreachable())
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, options)
        await asyncio.sleep(10)
        # Pre-votes raise no epoch.
        assert quorum.leader_epoch == 0
        with pytest.raises(OperationError) as caught:
            await quorum.append(new_topic("t", 1))
        assert caught.value.error_code is ErrorCode.not_controller
        assert (await quorum.describe()).error is ErrorCode.not_leader_or_follower
        await quorum.close()

    run_node(formatted_disk((VOTER, *others)), main, seed=1)


class Unreachable:
    async def dial(self, endpoint: VoterEndpoint, timeout_ms: int) -> Any:
        raise OperationError(ErrorCode.network_exception, f"no way to {endpoint.host}")


def test_a_snapshot_covers_the_image_and_shortens_the_next_start() -> None:
    fs = formatted_disk()

    async def main(quorum: RaftQuorum) -> MetadataImage:
        await quorum.append(new_topic("t", 1))
        await quorum.snapshot()
        await quorum.append(new_topic("u", 2))
        return quorum.image

    image = run_alone(fs, main)
    assert [name for name in fs.listdir(LOG_DIRECTORY) if name.endswith(".checkpoint")] == [
        "00000000000000000000-0000000000.checkpoint",
        "00000000000000000012-0000000001.checkpoint",
    ]
    again = run_alone(fs, image_of)
    assert again.topics == image.topics


def test_kafkas_single_node_directory_opens_with_its_image() -> None:
    source = GOLDEN / "single" / "d1"
    fs = copy_to_memory(source, DIRECTORY)
    expected = load_read_only(copy_to_memory(source, "/m"), "/m/__cluster_metadata-0").replay.image
    image = run_alone(fs, image_of)
    assert image.epoch > expected.epoch
    for part in ("features", "cluster", "topics", "configs", "acls", "scram", "client_quotas", "producer_ids"):
        assert getattr(image, part) == getattr(expected, part)


@run_with(lambda test: run_alone(formatted_disk(), test))
async def test_requests_are_answered_over_the_wire_and_asked_directly(quorum: RaftQuorum, /) -> None:
    body = encode_request(request_types(ApiKey.DESCRIBE_QUORUM, 2), DescribeRequest())
    answer = decode_response(ApiKey.DESCRIBE_QUORUM, await quorum.handle(ApiKey.DESCRIBE_QUORUM, 2, body))
    assert answer == await quorum.describe()
    types = request_types(ApiKey.DESCRIBE_QUORUM, 2)
    other = types.message(topics=[types.new("TopicData", topic_name="t", partitions=[])])
    refused = await quorum.handle(ApiKey.DESCRIBE_QUORUM, 2, other)
    assert refused.error_code is ErrorCode.invalid_request
    gone = RemoveVoterRequest(cluster_id=None, voter=ReplicaKey(7, UUID(int=7)), timeout_ms=1000)
    assert (await quorum.ask(gone)).error is ErrorCode.voter_not_found
    twice = AddVoterRequest(cluster_id=None, voter=VOTER.key, endpoints=VOTER.endpoints, timeout_ms=1000)
    assert (await quorum.ask(twice)).error is ErrorCode.duplicate_voter


@run_with(lambda test: run_node(formatted_disk(), test))
async def test_leadership_is_reported_once_it_is_of_use(runtime: Runtime, /) -> None:
    reported: list[object] = []
    quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, ALONE)
    quorum.on_leadership(lambda epoch: reported.append((epoch, quorum.image.is_empty)), lambda: reported.append("over"))
    await quorum.wait_active()
    quorum.on_leadership(reported.append, lambda: None)
    assert reported == [(1, False), 1]
    await quorum.close()
    assert reported[-1] == "over"


def test_a_directory_of_another_node_is_refused() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match="belongs to node 1"):
            await RaftQuorum.open(runtime, DIRECTORY, 2, ALONE)

    fs = formatted_disk()
    before = fs.listdir(LOG_DIRECTORY)
    run_node(fs, main)
    assert fs.listdir(LOG_DIRECTORY) == before


def test_a_static_quorum_of_one_runs_without_voters_in_the_log() -> None:
    options = ALONE._replace(voters=VoterSet((VoterNode(1, UUID(int=0), VOTER.endpoints),)))

    async def main(quorum: RaftQuorum) -> None:
        assert quorum.kraft_version == 0
        await quorum.append(new_topic("t", 1))
        await quorum.snapshot()

    fs = formatted_disk(())
    run_alone(fs, main, options)
    image = run_alone(fs, image_of, options)
    assert list(image.topics.by_name) == ["t"]


def test_a_restart_has_the_same_metadata_and_the_next_epoch() -> None:
    fs = formatted_disk()

    async def write(quorum: RaftQuorum) -> tuple[MetadataImage, int]:
        await quorum.append([*new_topic("a", 1), topic_config("a", "retention.ms", "5")])
        return quorum.image, quorum.leader_epoch

    async def look(quorum: RaftQuorum) -> tuple[MetadataImage, int]:
        return quorum.image, quorum.leader_epoch

    before, epoch = run_alone(fs, write)
    after, next_epoch = run_alone(fs, look)
    assert next_epoch == epoch + 1
    assert (after.topics, after.configs) == (before.topics, before.configs)
    # The leader change of the new epoch is one more record.
    assert (after.offset, after.epoch) == (before.offset + 1, next_epoch)


def test_a_lone_voter_starts_and_stops_in_no_time() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, ALONE)
        await quorum.wait_caught_up()
        assert quorum.is_active
        await quorum.close()
        assert asyncio.get_running_loop().time() == 0

    for _ in range(3):
        run_node(fs, main)


@run_with(lambda test: run_node(formatted_disk(), test))
async def test_the_leader_is_reported_with_its_endpoints(runtime: Runtime, /) -> None:
    reported: list[QuorumLeader] = []
    quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, ALONE)
    quorum.on_leader_change(reported.append)
    await quorum.wait_active()
    assert quorum.leader == QuorumLeader(1, 1, VOTER.endpoints)
    await quorum.close()
    assert reported == [QuorumLeader(None, 0), QuorumLeader(1, 1, VOTER.endpoints), QuorumLeader(None, 1)]


def test_catching_up_ends_with_the_quorum() -> None:
    other = VoterNode(2, UUID(int=2), (VoterEndpoint("CONTROLLER", "127.0.0.1", 1002),))

    async def main(runtime: Runtime) -> None:
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, ALONE._replace(dialer=Unreachable()))
        waiting = asyncio.ensure_future(quorum.wait_caught_up())
        await asyncio.sleep(10)
        assert not waiting.done()
        await quorum.close()
        with pytest.raises(OperationError):
            await waiting
        with pytest.raises(OperationError):
            await quorum.wait_caught_up()

    run_node(formatted_disk((VOTER, other)), main, seed=1)


def test_a_lone_voter_on_another_port_writes_its_new_endpoints() -> None:
    fs = formatted_disk()
    moved = (VoterEndpoint("CONTROLLER", "127.0.0.1", 40001),)

    async def endpoints(quorum: RaftQuorum) -> tuple[VoterEndpoint, ...]:
        return quorum.voters[0].endpoints

    assert run_alone(fs, endpoints, ALONE._replace(endpoints=moved)) == moved
    assert run_alone(fs, endpoints) == moved


def test_a_long_log_is_loaded_in_turn_with_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = formatted_disk()

    async def write(quorum: RaftQuorum) -> None:
        await asyncio.gather(*(quorum.append(new_topic(f"t{number}", number)) for number in range(50)))

    async def load(runtime: Runtime) -> None:
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, ALONE)
        seen: list[int] = []
        quorum.subscribe(lambda _delta, image: seen.append(len(image.topics.by_name)))
        body = encode_request(request_types(ApiKey.DESCRIBE_QUORUM, 2), DescribeRequest())
        answered_at: list[int] = []
        await asyncio.sleep(0)
        answer = asyncio.ensure_future(quorum.handle(ApiKey.DESCRIBE_QUORUM, 2, body))
        answer.add_done_callback(lambda _: answered_at.append(len(quorum.image.topics.by_name)))
        await quorum.wait_active()
        await answer
        await quorum.close()
        assert seen[-1] == 50
        assert len(seen) > 20
        assert answered_at[0] < 50

    run_alone(fs, write)
    monkeypatch.setattr(raft_applier, "SLICE_BYTES", 400)
    run_node(fs, load)


def test_a_fixed_quorum_becomes_one_whose_voters_are_records() -> None:
    options = ALONE._replace(voters=VoterSet((VoterNode(1, UUID(int=0), VOTER.endpoints),)))
    fs = formatted_disk(())

    async def upgrade(quorum: RaftQuorum) -> None:
        for validate_only in (True, False):
            assert quorum.kraft_version == 0
            answer = await quorum.ask(UpgradeRequest(kraft_version=1, validate_only=validate_only))
            assert answer.error is ErrorCode.none
        assert (quorum.kraft_version, quorum.voters) == (1, (VOTER,))
        refused = await quorum.ask(UpgradeRequest(kraft_version=0))
        assert refused.error is ErrorCode.invalid_update_version
        await quorum.append(new_topic("t", 1))

    run_alone(fs, upgrade, options)
    # The config need not name the voters any more.
    assert list(run_alone(fs, image_of).topics.by_name) == ["t"]
