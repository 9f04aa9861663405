"""The checks of a lone voter's files; those of a quorum are in tests/sim/test_metadata_rot.py."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.log.healing.scrub_settings import FIRST_PASS_MS, ScrubSettings
from crabka.ports import FileSystem, Runtime
from crabka.quorum.healing.scrubber import SUSPECT_MS, MetadataScrubber
from crabka.quorum.loading import load_read_only
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import SnapshotId, list_snapshots, read_snapshot
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.faults.rotting import flip
from tests.support.quorum.node import DIRECTORY, LOG_DIRECTORY, formatted_disk, new_topic, run_node

SETTINGS = MetadataLogSettings(max_idle_interval_ms=0, max_snapshot_interval_ms=0, segment_bytes=500)
TOPICS = 10


async def open_full(runtime: Runtime, scrub: ScrubSettings | None = None) -> tuple[RaftQuorum, MetadataScrubber]:
    """Open a quorum of one with some segments and a snapshot in the middle."""
    options = QuorumOptions(log=SETTINGS, scrub=scrub or ScrubSettings())
    quorum = await RaftQuorum.open(runtime, DIRECTORY, 1, options)
    await quorum.wait_active()
    for number in range(TOPICS):
        await quorum.append(new_topic(f"t{number}", number))
        if number == TOPICS // 2:
            await quorum.snapshot()
    return quorum, quorum._driver.scrubber


def names(fs: FileSystem, suffix: str) -> list[str]:
    return [f"{LOG_DIRECTORY}/{name}" for name in sorted(fs.listdir(LOG_DIRECTORY)) if name.endswith(suffix)]


def forget_recent(quorum: RaftQuorum) -> None:
    """As if the damaged batches were written long ago."""
    quorum._driver._storage.log._files.recent.truncate(0)


def check_whole(fs: MemoryFileSystem) -> None:
    for snapshot in list_snapshots(fs, LOG_DIRECTORY):
        read_snapshot(fs, f"{LOG_DIRECTORY}/{snapshot.file_name}", snapshot.epoch)
    assert set(load_read_only(fs, LOG_DIRECTORY).replay.image.topics.by_name) == {f"t{n}" for n in range(TOPICS)}


@pytest.mark.parametrize("which", [0, 1, -1], ids=["below the snapshot", "above it", "active"])
def test_a_damaged_segment_is_replaced_by_a_snapshot(which: int, caplog: pytest.LogCaptureFixture) -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        paths = names(fs, ".log")
        path = paths[which] if which != 1 else paths[-2]
        forget_recent(quorum)
        flip(fs, path, 70)
        assert await scrubber.check_now()
        assert not fs.exists(path)
        assert (scrubber.stats.found, scrubber.stats.repaired) == (1, 1)
        assert await scrubber.check_now()
        assert scrubber.stats.found == 1
        before = quorum.image
        await quorum.append(new_topic("after", 99))
        assert quorum.image.offset > before.offset
        await quorum.close()
        (line,) = [each.message for each in caplog.records if "is replaced by snapshot" in each.message]
        assert path in line
        assert "wrong checksum" in line

    with caplog.at_level(logging.WARNING):
        run_node(fs, main)
    for snapshot in list_snapshots(fs, LOG_DIRECTORY):
        read_snapshot(fs, f"{LOG_DIRECTORY}/{snapshot.file_name}", snapshot.epoch)
    found = set(load_read_only(fs, LOG_DIRECTORY).replay.image.topics.by_name)
    assert found == {*(f"t{n}" for n in range(TOPICS)), "after"}


@pytest.mark.parametrize("is_newest", [True, False])
@pytest.mark.parametrize("is_current", [True, False])
def test_a_damaged_snapshot_is_replaced(is_newest: bool, is_current: bool) -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        if is_current:
            await quorum.snapshot()
        snapshots = list_snapshots(fs, LOG_DIRECTORY)
        damaged = snapshots[-1 if is_newest else 0]
        flip(fs, f"{LOG_DIRECTORY}/{damaged.file_name}", 80)
        assert await scrubber.check_now()
        left = list_snapshots(fs, LOG_DIRECTORY)
        if is_newest and is_current:
            assert left == snapshots
        else:
            assert damaged not in left
        assert left[-1] >= snapshots[-1]
        assert quorum.core._state.log.latest_snapshot == OffsetAndEpoch(*left[-1])
        await quorum.close()

    run_node(fs, main)
    check_whole(fs)


@pytest.mark.parametrize(
    "suffix", ["leader-epoch-checkpoint", "partition.metadata", ".snapshot", ".timeindex", "crabka-durable-end"]
)
def test_other_files_are_written_anew(suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        assert await scrubber.check_now()
        path = names(fs, suffix)[0]
        whole = read_file(fs, path)
        flip(fs, path, 4)
        with caplog.at_level(logging.WARNING):
            assert await scrubber.check_now()
        assert path.rpartition(".")[0] in caplog.text
        assert (scrubber.stats.found, scrubber.stats.repaired) == (1, 1)
        if suffix != "crabka-durable-end":
            assert read_file(fs, path) == whole
        assert await scrubber.check_now()
        assert scrubber.stats.found == 1
        await quorum.close()

    run_node(fs, main)


def test_damage_that_the_image_is_not_past_waits_for_it() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        driver = quorum._driver
        path = names(fs, ".log")[-1]
        image = driver.applier.image
        # As if the last records were not committed yet.
        driver.applier.image = load_read_only(fs, LOG_DIRECTORY).replay.image.__class__(image.offset - 5, image.epoch)
        forget_recent(quorum)
        flip(fs, path, 70)
        assert not await scrubber.check_now()
        assert fs.exists(path)
        driver.applier.image = image
        assert await scrubber.check_now()
        assert not fs.exists(path)
        await quorum.close()

    run_node(fs, main)
    check_whole(fs)


def test_a_full_disk_puts_healing_off() -> None:
    fs = FaultyFileSystem(formatted_disk())

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime, ScrubSettings(interval_ms=10_000))
        path = names(fs, ".log")[-1]
        forget_recent(quorum)
        flip(fs, path, 70)
        rule = fs.add(FaultRule(operation="pwritev", path="*.part", error=errno.ENOSPC))
        scrubber.suspect("a test")
        await asyncio.sleep(5)
        assert fs.exists(path)
        assert quorum.failure is None
        fs.remove(rule)
        await asyncio.sleep(20)
        assert not fs.exists(path)
        await quorum.close()

    run_node(fs, main)


def test_checks_come_by_the_interval_and_at_once_for_a_suspicion() -> None:
    fs = formatted_disk()
    hour = 3_600_000

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime, ScrubSettings(interval_ms=hour))
        quorum.follow_scrub_settings(lambda: settings[0])
        settings = [ScrubSettings(interval_ms=hour)]
        await asyncio.sleep(FIRST_PASS_MS / 1000 - 5)
        assert scrubber.stats.passes == 0
        await asyncio.sleep(10)
        assert scrubber.stats.passes == 1
        await asyncio.sleep(2 * hour / 1000)
        assert scrubber.stats.passes == 3
        for _ in range(3):
            scrubber.suspect("one after the other")
        await asyncio.sleep(SUSPECT_MS / 1000)
        assert scrubber.stats.passes == 4
        settings[0] = ScrubSettings(is_enabled=False, interval_ms=hour)
        await asyncio.sleep(2 * hour / 1000)
        assert scrubber.stats.passes == 4
        settings[0] = settings[0]._replace(trigger="now")
        await asyncio.sleep(70)
        assert scrubber.stats.passes == 5
        await quorum.close()

    run_node(fs, main)


def test_a_check_keeps_to_the_rate() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        quorum.follow_scrub_settings(lambda: ScrubSettings(max_bytes_per_second=100))
        started_ms = runtime.clock.monotonic_ms()
        assert await scrubber.check_now(is_urgent=False)
        took_ms = runtime.clock.monotonic_ms() - started_ms
        assert scrubber.stats.bytes_checked > 1000
        assert took_ms >= 10 * scrubber.stats.bytes_checked * 0.9
        await quorum.close()

    run_node(fs, main)


def test_a_snapshot_that_is_gone_counts_as_one_that_must_be_written() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        for snapshot in list_snapshots(fs, LOG_DIRECTORY)[1:]:
            fs.unlink(f"{LOG_DIRECTORY}/{snapshot.file_name}")
        forget_recent(quorum)
        flip(fs, names(fs, ".log")[0], 70)
        assert await scrubber.check_now()
        assert list_snapshots(fs, LOG_DIRECTORY) == [SnapshotId(quorum.image.offset + 1, quorum.image.epoch)]
        await quorum.close()

    run_node(fs, main)
    check_whole(fs)


def test_a_recent_batch_is_written_back_in_place() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum, scrubber = await open_full(runtime)
        snapshots = list_snapshots(fs, LOG_DIRECTORY)
        for path in names(fs, ".log"):
            whole = read_file(fs, path)
            flip(fs, path, 70)
            assert await scrubber.check_now()
            assert read_file(fs, path) == whole
        assert scrubber.stats.repaired == len(names(fs, ".log"))
        assert list_snapshots(fs, LOG_DIRECTORY) == snapshots
        await quorum.close()

    run_node(fs, main)
    check_whole(fs)
