from __future__ import annotations

import json
from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.ids import ZERO_UUID, uuid_to_text
from crabka.kraft.actions import ElectionState
from crabka.kraft.voters import ReplicaKey
from crabka.quorum.state_file import (
    QuorumStateFile,
    parse_quorum_state,
    read_election,
    read_quorum_state,
    render_quorum_state,
    write_election,
    write_quorum_state,
)
from crabka.testing.memory_file_system import MemoryFileSystem
from tests.support.golden import GOLDEN


@pytest.mark.parametrize("node", ["quorum/c1", "quorum/c3", "quorum/b10", "single/d1"])
def test_kafkas_file_is_read_and_written_byte_for_byte(node: str) -> None:
    text = (GOLDEN / node / "__cluster_metadata-0" / "quorum-state").read_text()
    assert render_quorum_state(parse_quorum_state(text)) == text


def test_a_vote_keeps_its_directory_id() -> None:
    text = (GOLDEN / "quorum" / "c3" / "__cluster_metadata-0" / "quorum-state").read_text()
    state = parse_quorum_state(text)
    assert (state.leader_id, state.leader_epoch, state.voted_id) == (2, 2, 2)
    assert uuid_to_text(state.voted_directory_id) == "nd-RMsAAsCMxr8s7IFlbYA"


def test_version_0_of_static_quorums_is_read() -> None:
    text = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert parse_quorum_state(text) == QuorumStateFile(1, 4, -1, ZERO_UUID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"data_version":2}',
        '{"data_version":1,"leaderId":1}',
        '{"data_version":1,"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x"}',
    ],
)
def test_anything_else_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptDataError):
        parse_quorum_state(text)


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
    assert read_election(fs, "/m") is None
    write_election(fs, "/m", election)
    fs.crash()
    assert read_election(fs, "/m") == election


@pytest.mark.parametrize(
    ("name", "value"),
    [("leaderEpoch", 1 << 31), ("leaderEpoch", -1), ("leaderId", -2), ("votedId", 1 << 31), ("leaderEpoch", 1.5)],
)
def test_a_number_out_of_range_is_refused_with_the_way_out(name: str, value: float) -> None:
    fields = {"leaderId": 1, "leaderEpoch": 4, "votedId": 1, "data_version": 1, name: value}
    with pytest.raises(CorruptDataError, match=rf"{name}.*crabka quorum repair"):
        parse_quorum_state(json.dumps(fields))
