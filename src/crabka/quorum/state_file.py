"""`quorum-state`: the leader and the vote that a node must not forget (KIP-595, KIP-853).

Version 1 belongs to dynamic quorums and has no voters; version 0 has them and the cluster id, and is only read.

The format has no checksum, and another vote is a valid file: a copy guards it (`vfs.guarded_file`). The copy counts
only for the file that it was made for. If another program wrote the file since, its vote may be of a later epoch than
that in the copy; so a file that cannot be read is refused, although there is a copy.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from crabka.kraft.actions import ElectionState
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.voters import ReplicaKey
from crabka.vfs import read_guarded, settle_guarded, write_guarded
from crabka.vfs.guarded_file import Finding

if TYPE_CHECKING:
    from crabka.ports import FileSystem

LOGGER = logging.getLogger(__name__)
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
    return _decode(read_guarded(fs, path).data, path)


def write_quorum_state(fs: FileSystem, directory: str, state: QuorumStateFile) -> None:
    """Replace the state durably."""
    write_guarded(fs, f"{directory}/{FILE_NAME}", render_quorum_state(state).encode("utf-8"))


class ElectionFile:
    """The file of one replica. Blocks; may be called from any thread, and one call follows the other."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._lock = threading.Lock()
        # What was read or written last.
        self._known: QuorumStateFile | None = None
        # How many times the file or its copy was written anew.
        self.repairs = 0

    def read(self) -> ElectionState | None:
        """Return the state as the core knows it, None for a node that never took part. Raises CorruptDataError.

        What rotted of the file or of its copy is written anew.
        """
        path = f"{self._directory}/{FILE_NAME}"
        with self._lock:
            if not self._fs.exists(path):
                return None
            content = read_guarded(self._fs, path)
            state = self._known = _decode(content.data, path)
            reason = settle_guarded(self._fs, path, content)
        if reason:
            self.repairs += 1
            LOGGER.warning("%s", reason)
        voted = None if state.voted_id == NOBODY else ReplicaKey(state.voted_id, state.voted_directory_id)
        return ElectionState(state.leader_epoch, None if state.leader_id == NOBODY else state.leader_id, voted)

    def write(self, election: ElectionState) -> None:
        """Replace the state durably."""
        voted = election.voted or ReplicaKey(NOBODY)
        state = QuorumStateFile(
            leader_id=NOBODY if election.leader_id is None else election.leader_id,
            leader_epoch=election.epoch,
            voted_id=voted.node_id,
            voted_directory_id=voted.directory_id,
        )
        with self._lock:
            write_quorum_state(self._fs, self._directory, state)
            self._known = state

    def verify(self) -> str:
        """Write the file anew if it or its copy is not what this replica knows; return what was wrong, or nothing."""
        with self._lock:
            if self._known is None or self._is_as_known(self._known):
                return ""
            write_quorum_state(self._fs, self._directory, self._known)
            self.repairs += 1
            return f"{self._directory}/{FILE_NAME} or its copy was damaged, both are written anew from memory"

    def _is_as_known(self, known: QuorumStateFile) -> bool:
        path = f"{self._directory}/{FILE_NAME}"
        try:
            content = read_guarded(self._fs, path)
            return content.finding is Finding.WHOLE and _decode(content.data, path) == known
        except (FileNotFoundError, CorruptDataError):
            return False


def _decode(data: bytes, path: str) -> QuorumStateFile:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptDataError(path, f"malformed: {error!r}. {WAY_OUT}") from error
    return parse_quorum_state(text, path)
