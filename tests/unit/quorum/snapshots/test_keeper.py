from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from crabka.kraft.voters import VoterSet
from crabka.metadata.image import MetadataImage
from crabka.ports import Runtime
from crabka.quorum.loading import load_read_only
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import SnapshotId, list_snapshots, read_snapshot
from crabka.quorum.snapshots.keeper import (
    FIRST_RETRY_MS,
    CommittedMetadata,
    KeptSnapshot,
    SnapshotKeeper,
    snapshots_to_delete,
)
from crabka.quorum.storage import MetadataStorage
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from tests.support.faults.rotting import flip
from tests.support.quorum.node import (
    DIRECTORY,
    LOG_DIRECTORY,
    VOTER,
    formatted_disk,
    new_topic,
    open_quorum,
    run_node,
    topic_config,
)

KEPT = [
    KeptSnapshot(SnapshotId(0, 0), 10, 100),
    KeptSnapshot(SnapshotId(5, 1), 20, 200),
    KeptSnapshot(SnapshotId(9, 1), 30, 300),
]


@pytest.mark.parametrize(
    ("retention_bytes", "retention_ms", "now_ms", "doomed"),
    [
        (-1, -1, 10_000, []),
        (160, -1, 10_000, []),
        (159, -1, 10_000, [SnapshotId(0, 0)]),
        (0, -1, 10_000, [SnapshotId(0, 0), SnapshotId(5, 1)]),
        (-1, 100, 200, []),
        (-1, 100, 201, [SnapshotId(0, 0)]),
        (-1, 0, 10_000, [SnapshotId(0, 0), SnapshotId(5, 1)]),
    ],
)
def test_old_snapshots_go_by_size_and_age_but_never_the_newest(
    retention_bytes: int, retention_ms: int, now_ms: int, doomed: list[SnapshotId]
) -> None:
    settings = MetadataLogSettings(retention_bytes=retention_bytes, retention_ms=retention_ms)
    assert snapshots_to_delete(KEPT, 100, settings, now_ms=now_ms) == doomed


def test_no_snapshots_nothing_to_delete() -> None:
    assert snapshots_to_delete([], 100, MetadataLogSettings(retention_bytes=0), now_ms=1) == []


def test_a_snapshot_equals_the_image_it_was_taken_of() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        await quorum.append([*new_topic("a", 1), topic_config("a", "k", "v")])
        image = quorum.image
        await quorum.snapshot()
        await quorum.snapshot()
        await quorum.close()
        assert list_snapshots(fs, LOG_DIRECTORY) == [SnapshotId(0, 0), SnapshotId(image.offset + 1, 1)]
        loaded = load_read_only(fs, LOG_DIRECTORY)
        assert loaded.replay.image == image
        assert loaded.bytes_behind_snapshot == 0

    run_node(fs, main)


def test_a_snapshot_that_fails_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultyFileSystem(formatted_disk())
    settings = MetadataLogSettings(max_record_bytes_between_snapshots=1, max_idle_interval_ms=0)

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime, settings)
        rule = fs.add(FaultRule(operation="pwritev", path="*.part", error=errno.ENOSPC))
        with caplog.at_level(logging.ERROR):
            await quorum.append(new_topic("a", 1))
            await quorum.append(new_topic("b", 2))
            for number in range(10):
                await quorum.append(new_topic(f"more-{number}", 10 + number))
        # Not after every change: the disk is full for a while.
        assert caplog.text.count("Cannot write a snapshot") == 1
        await asyncio.sleep(FIRST_RETRY_MS / 1000)
        await quorum.append(new_topic("late", 30))
        await asyncio.sleep(0.1)
        assert caplog.text.count("Cannot write a snapshot") == 2
        fs.remove(rule)
        await asyncio.sleep(2 * FIRST_RETRY_MS / 1000)
        await quorum.append(new_topic("c", 3))
        await quorum.close()

    run_node(fs, main)
    assert "Cannot write a snapshot" in caplog.text
    assert len(list_snapshots(fs, LOG_DIRECTORY)) > 1
    assert {"a", "b", "c", "late"} < set(load_read_only(fs, LOG_DIRECTORY).replay.image.topics.by_name)


def test_a_snapshot_that_fails_unexpectedly_is_reported_and_does_not_keep_the_quorum_from_closing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MetadataLogSettings(max_record_bytes_between_snapshots=1, max_idle_interval_ms=0)

    def broken(*_arguments: object) -> None:
        raise LookupError("where is it?")

    async def main(runtime: Runtime) -> None:
        monkeypatch.setattr(SnapshotKeeper, "_write_blocking", broken)
        quorum = await open_quorum(runtime, settings)
        await quorum.append(new_topic("a", 1))
        await quorum.close()

    run_node(formatted_disk(), main)
    assert "Cannot write a snapshot of the metadata" in caplog.text


def test_only_what_is_committed_goes_into_a_snapshot() -> None:
    fs = formatted_disk(())

    async def main(runtime: Runtime) -> None:
        settings = MetadataLogSettings(retention_bytes=0)
        storage = MetadataStorage.open(fs, DIRECTORY, settings, now_ms=10)
        images = [MetadataImage(), MetadataImage(4, 2), MetadataImage(9, 2)]
        reported: list[SnapshotId | None] = []
        keeper = SnapshotKeeper(
            runtime,
            storage,
            asyncio.Lock(),
            source=CommittedMetadata(lambda: images[0], lambda _snapshot: (VoterSet((VOTER,)), 1)),
            on_change=reported.append,
        )
        await keeper.write_now()
        # Nothing is committed yet.
        assert list_snapshots(fs, LOG_DIRECTORY) == []
        for _ in range(2):
            images.pop(0)
            await keeper.write_now()
        assert reported == [None, None, SnapshotId(10, 2)]
        assert list_snapshots(fs, LOG_DIRECTORY) == [SnapshotId(10, 2)]
        assert read_snapshot(fs, f"{LOG_DIRECTORY}/{SnapshotId(10, 2).file_name}").voters == (VOTER,)

    run_node(fs, main)


def test_old_snapshots_go_although_the_head_of_one_is_damaged() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime, MetadataLogSettings(retention_ms=60_000, max_idle_interval_ms=0))
        await quorum.append(new_topic("a", 1))
        flip(fs, f"{LOG_DIRECTORY}/{SnapshotId(0, 0).file_name}", 70)
        await quorum.snapshot()
        assert len(list_snapshots(fs, LOG_DIRECTORY)) == 1
        await quorum.close()

    run_node(fs, main)


def test_two_who_want_a_snapshot_of_one_image_do_not_write_it_together() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        await quorum.append(new_topic("a", 1))
        keeper = quorum._driver.snapshots
        await asyncio.gather(keeper.write_now(), keeper.write_now(), keeper.heal(None, {SnapshotId(0, 0)}))
        (newest,) = list_snapshots(fs, LOG_DIRECTORY)
        assert set(load_read_only(fs, LOG_DIRECTORY).replay.image.topics.by_name) == {"a"}
        assert newest.end_offset == quorum.image.offset + 1
        await quorum.close()

    run_node(fs, main, seed=3)
