"""`quorum-state`: the leader and the vote that a node must not forget (KIP-595, KIP-853).

Version 1 belongs to dynamic quorums and has no voters; version 0 has them and the cluster id, and is only read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from crabka.kraft.actions import ElectionState
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.voters import ReplicaKey
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.ports import FileSystem

FILE_NAME = "quorum-state"
VERSION = 1
NOBODY = -1
WAY_OUT = "The node cannot start with it; `crabka quorum repair` shows how to mend it and does so with --execute"


@dataclass(frozen=True, slots=True)
class QuorumStateFile:
    """The newest known epoch, its leader if known, and whom this node voted for in it."""

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: UUID = ZERO_UUID


def parse_quorum_state(text: str, where: str = FILE_NAME) -> QuorumStateFile:
    """Read version 0 or 1. Raises CorruptDataError for anything else, and for numbers that no node writes."""
    try:
        data = json.loads(text)
        version = data["data_version"]
        if version not in (0, VERSION):
            raise CorruptDataError(where, f"data_version {version}: known are 0 and {VERSION}")
        voted_directory = data.get("votedDirectoryId")
        return QuorumStateFile(
            leader_id=_ranged(data, "leaderId", NOBODY, where),
            leader_epoch=_ranged(data, "leaderEpoch", 0, where),
            voted_id=_ranged(data, "votedId", NOBODY, where),
            voted_directory_id=ZERO_UUID if voted_directory is None else uuid_from_text(voted_directory),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptDataError(where, f"malformed: {error!r}. {WAY_OUT}") from error


def _ranged(data: dict[str, Any], name: str, lowest: int, where: str) -> int:
    """Return an int32 of the file. Raises CorruptDataError, TypeError."""
    value = data[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}")
    if not lowest <= value <= MAX_EPOCH:
        raise CorruptDataError(where, f"{name} {value} is not within {lowest} to {MAX_EPOCH}. {WAY_OUT}")
    return value


def render_quorum_state(state: QuorumStateFile) -> str:
    """Return the text of version 1, as Kafka writes it."""
    data = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": uuid_to_text(state.voted_directory_id),
        "data_version": VERSION,
    }
    return json.dumps(data, separators=(",", ":"))


def read_quorum_state(fs: FileSystem, directory: str) -> QuorumStateFile | None:
    """Return the state kept in the metadata directory, None for a node that never took part."""
    path = f"{directory}/{FILE_NAME}"
    if not fs.exists(path):
        return None
    return parse_quorum_state(read_file(fs, path).decode("utf-8"), path)


def write_quorum_state(fs: FileSystem, directory: str, state: QuorumStateFile) -> None:
    """Replace the state durably."""
    write_atomic(fs, f"{directory}/{FILE_NAME}", render_quorum_state(state).encode("utf-8"))


def read_election(fs: FileSystem, directory: str) -> ElectionState | None:
    """Return the state as the core knows it, None for a node that never took part."""
    state = read_quorum_state(fs, directory)
    if state is None:
        return None
    voted = None if state.voted_id == NOBODY else ReplicaKey(state.voted_id, state.voted_directory_id)
    return ElectionState(state.leader_epoch, None if state.leader_id == NOBODY else state.leader_id, voted)


def write_election(fs: FileSystem, directory: str, election: ElectionState) -> None:
    """Replace the state durably."""
    voted = election.voted or ReplicaKey(NOBODY)
    state = QuorumStateFile(
        leader_id=NOBODY if election.leader_id is None else election.leader_id,
        leader_epoch=election.epoch,
        voted_id=voted.node_id,
        voted_directory_id=voted.directory_id,
    )
    write_quorum_state(fs, directory, state)
