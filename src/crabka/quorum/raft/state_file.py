"""The file `quorum-state` of a replica, read and written durably. Its form is in `formats.quorum_state`.

The format has no checksum, and a changed vote is still a valid file: a copy guards it (`vfs.guarded_file`). The copy
counts only for the file that it was made for. If another program wrote the file since, its vote may be of a later epoch
than that in the copy; so an unreadable file is refused, although there is a copy.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.quorum_state import FILE_NAME, NO_NODE, QuorumStateFile, decode_quorum_state, encode_quorum_state
from crabka.kraft.actions import ElectionState
from crabka.kraft.voters import ReplicaKey
from crabka.vfs import read_guarded, settle_guarded, write_guarded
from crabka.vfs.guarded_file import Finding

if TYPE_CHECKING:
    from crabka.ports import FileSystem

logger = logging.getLogger(__name__)
WAY_OUT = "The node cannot start with it; `crabka quorum repair` shows how to mend it and does so with --execute"


def read_quorum_state(fs: FileSystem, directory: str) -> QuorumStateFile | None:
    """Return the state in the metadata directory, None for a node that never took part."""
    path = f"{directory}/{FILE_NAME}"
    if not fs.exists(path):
        return None
    return _decode(read_guarded(fs, path).data, path)


def write_quorum_state(fs: FileSystem, directory: str, state: QuorumStateFile) -> None:
    """Replace the state durably."""
    write_guarded(fs, f"{directory}/{FILE_NAME}", encode_quorum_state(state))


class ElectionFile:
    """The file of one replica. Blocks; may be called from any thread, and one call follows the other."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._lock = threading.Lock()
        # The content that was read or written last.
        self._known: QuorumStateFile | None = None
        # How many times the file or its copy was rewritten.
        self.repairs = 0

    def read(self) -> ElectionState | None:
        """Return the state in the core's form, None for a node that never took part. Raises CorruptDataError.

        A damaged file or copy is rewritten.
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
            logger.warning("%s", reason)
        voted = None if state.voted_id == NO_NODE else ReplicaKey(state.voted_id, state.voted_directory_id)
        return ElectionState(state.leader_epoch, None if state.leader_id == NO_NODE else state.leader_id, voted)

    def write(self, election: ElectionState) -> None:
        """Replace the state durably."""
        voted = election.voted or ReplicaKey(NO_NODE)
        state = QuorumStateFile(
            leader_id=NO_NODE if election.leader_id is None else election.leader_id,
            leader_epoch=election.epoch,
            voted_id=voted.node_id,
            voted_directory_id=voted.directory_id,
        )
        with self._lock:
            write_quorum_state(self._fs, self._directory, state)
            self._known = state

    def verify(self) -> str:
        """Rewrite the file if it or its copy differs from this replica's state; return the fault, or ""."""
        with self._lock:
            if self._known is None or self._is_as_known(self._known):
                return ""
            write_quorum_state(self._fs, self._directory, self._known)
            self.repairs += 1
            return f"{self._directory}/{FILE_NAME} or its copy was damaged, both are rewritten from memory"

    def _is_as_known(self, known: QuorumStateFile) -> bool:
        path = f"{self._directory}/{FILE_NAME}"
        try:
            content = read_guarded(self._fs, path)
            return content.finding is Finding.WHOLE and _decode(content.data, path) == known
        except (FileNotFoundError, CorruptDataError):
            return False


def _decode(data: bytes, path: str) -> QuorumStateFile:
    try:
        return decode_quorum_state(data, path)
    except CorruptDataError as error:
        raise CorruptDataError(path, f"{error.message}. {WAY_OUT}") from error
