from __future__ import annotations

import json

import pytest

from crabka.errors import ConfigError, CorruptDataError
from crabka.formats.quorum_state import QuorumStateFile
from crabka.kraft.epochs import MAX_EPOCH
from crabka.ports import Runtime
from crabka.quorum.healing.repair import ACCEPT_CLUSTER_ID, ACCEPT_LOSS, EPOCH_STEP, plan_repair
from crabka.quorum.raft.state_file import read_quorum_state, write_quorum_state
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import SnapshotId, list_snapshots
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file, write_atomic
from tests.support.faults.rotting import flip
from tests.support.quorum.node import DIRECTORY, LOG_DIRECTORY, formatted_disk, new_topic, open_quorum, run_node

STATE = f"{LOG_DIRECTORY}/quorum-state"
LOG = f"{LOG_DIRECTORY}/00000000000000000000.log"


def used_disk() -> MemoryFileSystem:
    """The disk of a lone voter with three topics."""
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime)
        for number in range(3):
            await quorum.append(new_topic(f"t{number}", number))
        await quorum.close()

    run_node(fs, main)
    return fs


def topics(fs: MemoryFileSystem) -> set[str]:
    async def main(runtime: Runtime) -> set[str]:
        quorum = await open_quorum(runtime)
        found = set(quorum.image.topics.by_name)
        await quorum.close()
        return found

    return run_node(fs, main)


def flip_last_batch(fs: MemoryFileSystem) -> None:
    file = fs.open(LOG)
    position = file.size() - 3
    file.pwritev([bytes([file.pread(1, position)[0] ^ 1])], position)
    file.fsync()
    file.close()


def test_a_sound_directory_needs_nothing() -> None:
    assert plan_repair(used_disk(), DIRECTORY) == []
    assert plan_repair(formatted_disk(), DIRECTORY) == []


@pytest.mark.parametrize("epoch", [1 << 31, -1, MAX_EPOCH])
def test_an_epoch_that_ends_the_quorum_is_replaced(epoch: int) -> None:
    fs = used_disk()
    fields = json.loads(read_file(fs, STATE)) | {"leaderEpoch": epoch}
    write_atomic(fs, STATE, json.dumps(fields).encode())
    if epoch != MAX_EPOCH:
        with pytest.raises(CorruptDataError, match="crabka quorum repair"):
            topics(fs)
    (step,) = plan_repair(fs, DIRECTORY)
    assert step.is_allowed(())
    step.run()
    assert json.loads(read_file(fs, f"{STATE}.before-repair"))["leaderEpoch"] == epoch
    assert read_quorum_state(fs, LOG_DIRECTORY) == QuorumStateFile(leader_epoch=1 + EPOCH_STEP)
    assert topics(fs) == {"t0", "t1", "t2"}
    assert plan_repair(fs, DIRECTORY) == []


def test_garbage_in_quorum_state_is_replaced() -> None:
    fs = used_disk()
    write_atomic(fs, STATE, b"\xff{")
    (step,) = plan_repair(fs, DIRECTORY)
    step.run()
    assert topics(fs) == {"t0", "t1", "t2"}


def test_an_epoch_somewhat_ahead_is_left_alone() -> None:
    fs = used_disk()
    write_quorum_state(fs, LOG_DIRECTORY, QuorumStateFile(leader_epoch=100_000))
    assert plan_repair(fs, DIRECTORY) == []


def test_a_lone_voter_that_lost_durable_entries_starts_only_after_the_loss_is_accepted() -> None:
    fs = used_disk()
    flip_last_batch(fs)
    damaged = read_file(fs, LOG)
    with pytest.raises(CorruptDataError, match=r"only known voter.*--accept-loss --execute"):
        topics(fs)
    assert read_file(fs, LOG) == damaged
    (step,) = plan_repair(fs, DIRECTORY)
    assert (step.option, step.is_allowed(()), step.is_allowed({ACCEPT_LOSS})) == (ACCEPT_LOSS, False, True)
    assert "WARNING" in step.action
    step.run()
    fs.crash()
    assert topics(fs) == {"t0", "t1"}


def test_a_changed_cluster_id_is_noticed_and_can_be_accepted() -> None:
    fs = used_disk()
    path = f"{DIRECTORY}/meta.properties"
    write_atomic(fs, path, read_file(fs, path).replace(b"cluster.id=cluster", b"cluster.id=other"))
    with pytest.raises(ConfigError, match=r"says cluster other, but .* cluster cluster: restore"):
        topics(fs)
    (step,) = plan_repair(fs, DIRECTORY)
    assert step.option == ACCEPT_CLUSTER_ID
    step.run()
    assert topics(fs) == {"t0", "t1", "t2"}


def snapshot_disk(*, keep_log: bool) -> MemoryFileSystem:
    """The disk of a lone voter whose newest snapshot is damaged, with the log from offset 0 or without."""
    fs = formatted_disk()

    async def main(runtime: Runtime) -> None:
        quorum = await open_quorum(runtime, MetadataLogSettings(segment_bytes=100, retention_bytes=0))
        for number in range(3):
            await quorum.append(new_topic(f"t{number}", number))
        if not keep_log:
            await quorum.snapshot()
        await quorum.close()

    run_node(fs, main)
    if keep_log:
        newest = SnapshotId(0, 0)
    else:
        (newest,) = list_snapshots(fs, LOG_DIRECTORY)
    # Not in the head, which names the voters.
    flip(fs, f"{LOG_DIRECTORY}/{newest.file_name}", fs.stat(f"{LOG_DIRECTORY}/{newest.file_name}").size_bytes - 3)
    return fs


def test_a_damaged_snapshot_that_the_log_makes_up_for_is_set_aside() -> None:
    fs = snapshot_disk(keep_log=True)
    (step,) = plan_repair(fs, DIRECTORY)
    assert step.is_allowed(())
    assert "the log from offset 0" in step.action
    step.run()
    assert plan_repair(fs, DIRECTORY) == []
    assert topics(fs) == {"t0", "t1", "t2"}


def test_a_lone_voter_heals_a_damaged_snapshot_by_itself_if_the_log_makes_up_for_it() -> None:
    assert topics(snapshot_disk(keep_log=True)) == {"t0", "t1", "t2"}


def test_a_lone_voter_that_has_nothing_else_refuses_and_begins_anew_once_that_is_accepted() -> None:
    fs = snapshot_disk(keep_log=False)
    (newest,) = list_snapshots(fs, LOG_DIRECTORY)
    with pytest.raises(CorruptDataError, match=rf"{newest.file_name}: wrong checksum.*--accept-loss --execute"):
        topics(fs)
    assert list_snapshots(fs, LOG_DIRECTORY) == [newest]
    (step,) = plan_repair(fs, DIRECTORY)
    assert (step.option, "kept as *.damaged" in step.action) == (ACCEPT_LOSS, True)
    step.run()
    assert topics(fs) == set()
    assert plan_repair(fs, DIRECTORY) == []
