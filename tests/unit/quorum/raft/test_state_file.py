from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.quorum_state import QuorumStateFile, decode_quorum_state
from crabka.kraft.actions import ElectionState
from crabka.kraft.voters import ReplicaKey
from crabka.quorum.raft.state_file import ElectionFile, read_quorum_state, write_quorum_state
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file, write_atomic


def test_the_file_survives_a_crash_once_written() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    fs.fsync_dir("/")
    assert read_quorum_state(fs, "/m") is None
    state = QuorumStateFile(3, 9, 3, UUID(int=4711))
    write_quorum_state(fs, "/m", state)
    fs.crash()
    assert read_quorum_state(fs, "/m") == state


@pytest.mark.parametrize(
    "election",
    [ElectionState(), ElectionState(4), ElectionState(4, 2), ElectionState(4, 2, ReplicaKey(1, UUID(int=9)))],
)
def test_the_core_finds_what_it_must_not_forget(election: ElectionState) -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    fs.fsync_dir("/")
    assert ElectionFile(fs, "/m").read() is None
    ElectionFile(fs, "/m").write(election)
    fs.crash()
    assert ElectionFile(fs, "/m").read() == election


VOTE = ElectionState(4, None, ReplicaKey(2, UUID(int=9)))


def written_vote(now_ms: Callable[[], int] = lambda: 0) -> MemoryFileSystem:
    fs = MemoryFileSystem(now_ms=now_ms)
    fs.makedirs("/m")
    ElectionFile(fs, "/m").write(VOTE)
    return fs


def flip_vote(fs: MemoryFileSystem) -> None:
    """Let the file name another candidate, as a valid file does."""
    text = read_file(fs, "/m/quorum-state")
    fs.rot("/m/quorum-state", text.index(b'"votedId":2') + 10)
    assert decode_quorum_state(read_file(fs, "/m/quorum-state")).voted_id == 3


def test_a_rotten_vote_is_not_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    fs = written_vote()
    flip_vote(fs)
    assert read_quorum_state(fs, "/m") == QuorumStateFile(-1, 4, 2, UUID(int=9))
    file = ElectionFile(fs, "/m")
    assert file.read() == VOTE
    assert file.repairs == 1
    assert "/m/quorum-state: its bytes have changed" in caplog.text
    assert decode_quorum_state(read_file(fs, "/m/quorum-state")).voted_id == 2


def test_a_vote_that_another_program_wrote_counts() -> None:
    now_ms = 1
    fs = written_vote(lambda: now_ms)
    now_ms = 2
    text = read_file(fs, "/m/quorum-state").replace(b'"votedId":2', b'"votedId":3')
    write_atomic(fs, "/m/quorum-state", text)
    found = ElectionFile(fs, "/m").read()
    assert found is not None
    assert found.voted == ReplicaKey(3, UUID(int=9))


@pytest.mark.parametrize(
    "content",
    [
        b'{"leaderId":1',
        b"\xff{",
        b'{"leaderId":1,"leaderEpoch":-1,"data_version":1}',
        b'{"data_version":2}',
    ],
)
def test_a_malformed_file_of_another_program_is_refused_although_there_is_a_copy(content: bytes) -> None:
    now_ms = 1
    fs = written_vote(lambda: now_ms)
    now_ms = 2
    copy = read_file(fs, "/m/crabka-copy-of-quorum-state")
    write_atomic(fs, "/m/quorum-state", content)
    for read in (lambda: read_quorum_state(fs, "/m"), ElectionFile(fs, "/m").read):
        with pytest.raises(CorruptDataError, match="crabka quorum repair"):
            read()
    assert read_file(fs, "/m/crabka-copy-of-quorum-state") == copy


def test_a_malformed_file_without_a_whole_copy_is_refused() -> None:
    fs = written_vote()
    fs.rot("/m/quorum-state", 0)
    fs.rot("/m/crabka-copy-of-quorum-state", 0)
    with pytest.raises(CorruptDataError, match="crabka quorum repair"):
        ElectionFile(fs, "/m").read()


def test_a_running_replica_writes_what_it_knows_over_what_rotted() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    file = ElectionFile(fs, "/m")
    assert file.verify() == ""
    file.write(VOTE)
    assert file.verify() == ""
    expected = read_file(fs, "/m/quorum-state")

    def rot_both() -> None:
        fs.rot("/m/quorum-state", 0)
        fs.rot("/m/crabka-copy-of-quorum-state", 20)

    rots: list[Callable[[], None]] = [
        lambda: flip_vote(fs),
        lambda: fs.rot("/m/crabka-copy-of-quorum-state", 20),
        rot_both,
        lambda: fs.unlink("/m/quorum-state"),
    ]
    for number, rot in enumerate(rots, 1):
        rot()
        assert "/m/quorum-state or its copy was damaged" in file.verify()
        assert file.repairs == number
        assert read_file(fs, "/m/quorum-state") == expected
        assert file.verify() == ""
    assert ElectionFile(fs, "/m").read() == VOTE
