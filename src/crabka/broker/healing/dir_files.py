"""Verifies the small files of a node that belong to no log: those of each log dir, and those of the metadata quorum.

They are read when the node starts and only written while it runs. What rots meanwhile is found here as long as the copy
of it is whole. Runs in threads; the owner of each file ensures that it is not written at the same time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.log.dirs.meta_properties import heal_meta_properties

if TYPE_CHECKING:
    from crabka.log.dirs.log_manager import LogManager
    from crabka.ports import Runtime
    from crabka.quorum.raft.quorum import RaftQuorum

logger = logging.getLogger(__name__)


class DirFiles:
    """The files of one node. All methods run on the loop."""

    def __init__(self, runtime: Runtime, logs: LogManager, quorum: RaftQuorum, metadata_dir: str) -> None:
        self._runtime = runtime
        self._logs = logs
        self._quorum = quorum
        self._metadata_dir = metadata_dir

    async def heal(self) -> list[str]:
        """Write anew what rotted; return what was wrong. A log dir that cannot be read goes offline."""
        submit, reasons = self._runtime.threads.submit, []
        for path in self._logs.online_dirs:
            try:
                reasons += await submit(self._logs.dirs[path].heal_files)
            except OSError as error:
                self._logs.on_dir_failure(path, error)
        try:
            if self._metadata_dir not in self._logs.dirs:
                _, reason = await submit(heal_meta_properties, self._runtime.fs, self._metadata_dir)
                reasons += [reason] if reason else []
            reason = await self._quorum.verify_election_file()
            reasons += [reason] if reason else []
        except (OSError, CorruptDataError) as error:
            # The quorum works with what it knows; a disk that fails is met by its next write.
            logger.warning("the files of the metadata quorum cannot be verified: %s", error)
        return reasons
