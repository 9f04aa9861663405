"""A quorum of one: everything a node on its own expects of its metadata."""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from typing import Any

import pytest

from crabka.errors import InvariantError, OperationError, StorageError
from crabka.formats.meta_properties import MetaProperties, encode_meta_properties
from crabka.formats.quorum_state import QuorumStateFile
from crabka.ids import ZERO_UUID
from crabka.kraft.voters import VoterNode, VoterSet
from crabka.metadata.delta import MetadataChanges
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import BeginTransactionRecord
from crabka.ports import Runtime
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.raft.state_file import write_quorum_state
from crabka.quorum.settings import MetadataLogSettings
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import write_atomic
from tests.support.async_tests import run_with
from tests.support.quorum.node import (
    DIRECTORY,
    LOG_DIRECTORY,
    QUIET,
    VOTER,
    formatted_disk,
    new_topic,
    open_quorum,
    run_node,
    topic_config,
)


def _image_after_restart(fs: MemoryFileSystem) -> MetadataImage:
    async def main(runtime: Runtime) -> MetadataImage:
        quorum = await open_quorum(runtime)
        await quorum.close()
        return quorum.image

    return run_node(fs, main)


@run_with(lambda test: run_node(formatted_disk(), test, seed=3))
async def test_offsets_are_given_in_the_order_of_calls(runtime: Runtime, /) -> None:
    quorum = await open_quorum(runtime)
    first = quorum.next_offset
    futures = [quorum.append([topic_config("a", "k", str(number))]) for number in range(20)]
    assert await asyncio.gather(*futures) == list(range(first, first + 20))
    assert quorum.image.configs.get(2, "a") == {"k": "19"}
    await quorum.close()


def test_concurrent_appends_share_an_fsync() -> None:
    fs = FaultyFileSystem(formatted_disk())
    counter = fs.add(FaultRule(operation="fsync", path="*.log", before=lambda _operation, _path: None))

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        before = counter.fired_count
        await asyncio.gather(*[quorum.append([topic_config("a", "k", str(number))]) for number in range(100)])
        assert counter.fired_count - before == 1
        await quorum.close()

    run_node(fs, main)


def test_nothing_is_visible_before_it_is_durable() -> None:
    fs = FaultyFileSystem(formatted_disk())
    seen: list[bool] = []

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        rule = FaultRule(
            operation="fsync", path="*.log", before=lambda _o, _p: seen.append("a" in quorum.image.topics.by_name)
        )
        fs.add(rule)
        done = quorum.append(new_topic("a", 1))
        quorum.subscribe(lambda _delta, image: seen.append("a" in image.topics.by_name))
        await done
        await quorum.close()

    run_node(fs, main)
    assert seen[:2] == [False, True]


def test_subscribers_see_every_change_once_and_in_order() -> None:
    steps: list[tuple[int, set[str]]] = []

    def note(delta: MetadataChanges, image: MetadataImage) -> None:
        created = {image.topics.by_id[topic_id].name for topic_id in delta.topics_created}
        steps.append((image.offset, created))

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        unsubscribe = quorum.subscribe(note)
        await quorum.append(new_topic("a", 1))
        await quorum.append(new_topic("b", 2))
        unsubscribe()
        await quorum.append(new_topic("c", 3))
        await quorum.close()

    run_node(formatted_disk(), main)
    assert steps == [(11, {"a"}), (13, {"b"})]


def test_a_snapshot_comes_after_enough_bytes_and_prunes_the_log() -> None:
    settings = MetadataLogSettings(
        segment_bytes=2000, max_record_bytes_between_snapshots=3000, max_idle_interval_ms=0, retention_bytes=5000
    )
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime, settings)
        for number in range(200):
            await quorum.append([topic_config("a", f"key{number % 10}", str(number))])
        await quorum.close()

    run_node(fs, main)
    names = fs.listdir(f"{DIRECTORY}/__cluster_metadata-0")
    assert "00000000000000000000.log" not in names
    assert [name for name in names if name.endswith(".checkpoint")]
    assert not [name for name in names if name.endswith(".part")]
    assert _image_after_restart(fs).configs.get(2, "a") == {f"key{number}": str(190 + number) for number in range(10)}


def test_a_snapshot_comes_after_enough_time() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(
            runtime, MetadataLogSettings(max_snapshot_interval_ms=60_000, max_idle_interval_ms=5_000)
        )
        await asyncio.sleep(66)
        await quorum.close()

    run_node(fs, main)
    assert [name for name in fs.listdir(f"{DIRECTORY}/__cluster_metadata-0") if name.endswith("-0000000001.checkpoint")]


def test_a_failed_write_kills_the_quorum_and_notifies_everybody(caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultyFileSystem(formatted_disk())
    reported: list[Exception] = []

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        quorum.on_failure = reported.append
        fs.add(FaultRule(operation="fsync", path="*.log", error=errno.EIO))
        with caplog.at_level(logging.CRITICAL), pytest.raises(StorageError):
            await quorum.append(new_topic("a", 1))
        assert "a" not in quorum.image.topics.by_name
        with pytest.raises(StorageError):
            await quorum.append(new_topic("b", 2))
        await quorum.close()

    run_node(fs, main)
    assert len(reported) == 1
    assert "quorum failed" in caplog.text


@run_with(lambda test: run_node(formatted_disk(), test))
async def test_a_broken_subscriber_kills_the_quorum(runtime: Runtime, /, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_delta: MetadataChanges, _image: MetadataImage) -> None:
        raise KeyError("bug")

    quorum = await open_quorum(runtime)
    quorum.subscribe(broken)
    with pytest.raises(InvariantError):
        await quorum.append(new_topic("a", 1))
    assert isinstance(quorum.failure, InvariantError)
    await quorum.close()


def test_a_transaction_left_open_is_aborted_at_the_next_start() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        await quorum.append([BeginTransactionRecord(name="half"), *new_topic("a", 1)])
        assert "a" not in quorum.image.topics.by_name
        await quorum.close()

    run_node(fs, main)
    image = _image_after_restart(fs)
    assert "a" not in image.topics.by_name
    # Leader change and abort follow the three records.
    assert image.offset == 9 + 3 + 2


def _run_until_power_cut(fs: MemoryFileSystem, seed: int, operations: int) -> list[int]:
    """Append until the disk stops working after so many operations; return what was acknowledged."""
    acknowledged: list[int] = []
    faulty = FaultyFileSystem(fs)
    settings = MetadataLogSettings(
        segment_bytes=700, max_record_bytes_between_snapshots=900, max_idle_interval_ms=0, retention_bytes=2000
    )

    async def writer(quorum: RaftQuorum, first: int) -> None:
        for number in range(first, 60, 3):
            await quorum.append([topic_config("a", f"key{number}", "x")])
            acknowledged.append(number)

    async def main(runtime: Runtime) -> None:
        rng = random.Random(seed)
        for operation in ("open", "pwritev", "fsync", "fsync_dir", "rename", "truncate", "unlink"):
            keep = rng.choice([None, 0, 17, 61])
            faulty.add(FaultRule(operation=operation, skip=operations, error=errno.EIO, keep_bytes=keep))
        try:
            quorum = await open_quorum(runtime, settings)
        except StorageError:
            return
        await asyncio.gather(*[writer(quorum, first) for first in range(3)], return_exceptions=True)

    run_node(faulty, main, seed=seed)
    return acknowledged


@pytest.mark.parametrize("operations", range(0, 45, 3))
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_any_point_loses_no_acknowledged_record(
    seed: int, operations: int, caplog: pytest.LogCaptureFixture
) -> None:
    fs = formatted_disk()
    acknowledged: list[int] = []
    for attempt in range(3):
        acknowledged += _run_until_power_cut(fs, seed * 10 + attempt, operations)
        fs.crash(random.Random(seed + attempt), block_bytes=64)
    values: dict[str, Any] = dict(_image_after_restart(fs).configs.get(2, "a"))
    assert {f"key{number}" for number in acknowledged} <= set(values)


def test_a_directory_of_a_release_that_kept_no_vote_leads_on() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> int:
        quorum = await open_quorum(runtime)
        await quorum.append(new_topic(f"t{quorum.leader_epoch}", quorum.leader_epoch))
        await quorum.close()
        return quorum.leader_epoch

    assert run_node(fs, main) == 1
    write_quorum_state(fs, LOG_DIRECTORY, QuorumStateFile(leader_id=1, leader_epoch=1))
    assert run_node(fs, main) == 2
    fs.unlink(f"{LOG_DIRECTORY}/quorum-state")
    assert run_node(fs, main) == 3
    assert set(_image_after_restart(fs).topics.by_name) == {"t1", "t2", "t3"}


@run_with(lambda test: run_node(formatted_disk(), test))
async def test_a_closed_quorum_fails_its_waiters(runtime: Runtime, /) -> None:
    quorum = await open_quorum(runtime)
    await quorum.close()
    async with asyncio.timeout(60):
        for wait in (quorum.wait_active, quorum.describe, lambda: quorum.append(new_topic("a", 1))):
            with pytest.raises(OperationError, match="closed"):
                await wait()


def test_a_directory_without_an_id_is_that_of_a_fixed_voter() -> None:
    fs = formatted_disk(())
    properties = MetaProperties("cluster", 1, None)
    write_atomic(fs, f"{DIRECTORY}/meta.properties", encode_meta_properties(properties))

    async def main(runtime: Runtime) -> None:
        voters = VoterSet((VoterNode(1, ZERO_UUID, VOTER.endpoints),))
        quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, QuorumOptions(log=QUIET, voters=voters))
        await quorum.wait_active()
        await quorum.append(new_topic("a", 1))
        await quorum.close()

    run_node(fs, main)
