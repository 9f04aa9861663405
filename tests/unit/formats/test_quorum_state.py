from __future__ import annotations

import json

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.quorum_state import QuorumStateFile, decode_quorum_state, encode_quorum_state
from crabka.ids import ZERO_UUID, uuid_to_text
from tests.support.recorded.files import GOLDEN


@pytest.mark.parametrize("node", ["quorum/c1", "quorum/c3", "quorum/b10", "single/d1"])
def test_kafkas_file_is_read_and_written_byte_for_byte(node: str) -> None:
    data = (GOLDEN / node / "__cluster_metadata-0" / "quorum-state").read_bytes()
    assert encode_quorum_state(decode_quorum_state(data)) == data


def test_a_vote_keeps_its_directory_id() -> None:
    data = (GOLDEN / "quorum" / "c3" / "__cluster_metadata-0" / "quorum-state").read_bytes()
    state = decode_quorum_state(data)
    assert (state.leader_id, state.leader_epoch, state.voted_id) == (2, 2, 2)
    assert uuid_to_text(state.voted_directory_id) == "nd-RMsAAsCMxr8s7IFlbYA"


def test_version_0_of_static_quorums_is_read() -> None:
    text = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert decode_quorum_state(text.encode()) == QuorumStateFile(1, 4, -1, ZERO_UUID)


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
        decode_quorum_state(text.encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [("leaderEpoch", 1 << 31), ("leaderEpoch", -1), ("leaderId", -2), ("votedId", 1 << 31), ("leaderEpoch", 1.5)],
)
def test_a_number_out_of_range_is_refused(name: str, value: float) -> None:
    fields = {"leaderId": 1, "leaderEpoch": 4, "votedId": 1, "data_version": 1, name: value}
    with pytest.raises(CorruptDataError, match=name):
        decode_quorum_state(json.dumps(fields).encode())
