"""The log dirs of a node (JBOD): which of them work, which take new logs, and their ids.

A dir is online until it fails and stays offline until the node starts again (KIP-112). A cordoned dir works but gets
no new logs (KIP-1066). Knows directories, not the logs in them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.errors import StorageError
from crabka.log.dirs.log_dir import LogDir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from crabka.ids import DirectoryId
    from crabka.log.recovery.cuts import CutStats
    from crabka.ports import FileSystem

logger = logging.getLogger(__name__)


class LogDirs:
    """The directories named in `log.dirs`, in that order."""

    def __init__(self, fs: FileSystem, paths: Sequence[str], cuts: CutStats | None = None) -> None:
        """`cuts` counts the checkpoint files that cannot be read."""
        self._dirs = {path: LogDir(fs, path, cuts) for path in paths}
        # Dir -> why it is offline.
        self._offline: dict[str, str] = {}
        self._cordoned: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[LogDir]:
        return iter(self._dirs.values())

    def __contains__(self, path: str) -> bool:
        return path in self._dirs

    def __getitem__(self, path: str) -> LogDir:
        return self._dirs[path]

    # -- health --------------------------------------------------------------------------------------------------

    @property
    def online(self) -> list[str]:
        """Paths of the dirs that work."""
        return [path for path in self._dirs if path not in self._offline]

    @property
    def offline(self) -> list[str]:
        """Paths of the dirs that failed, in the order in which they did."""
        return list(self._offline)

    def is_online(self, path: str) -> bool:
        """Return whether this is a log dir, and one that works."""
        return path in self._dirs and path not in self._offline

    def offline_reason(self, path: str) -> str | None:
        """Return why a dir is offline, None if it works."""
        return self._offline.get(path)

    def fail(self, path: str, reason: str) -> bool:
        """Take a dir offline; return whether that is news."""
        if not self.is_online(path):
            return False
        self._offline[path] = reason
        return True

    def owner_of(self, path: str) -> str | None:
        """Return the dir that works and holds a file or directory, None if there is none."""
        owner = max((each for each in self._dirs if path.startswith(f"{each}/")), key=len, default=None)
        return owner if owner is not None and self.is_online(owner) else None

    # -- ids -----------------------------------------------------------------------------------------------------

    def directory_id(self, path: str) -> DirectoryId | None:
        """Return the id of a dir, None if it was never formatted."""
        properties = self._dirs[path].properties
        return properties.directory_id if properties is not None else None

    def ids_of(self, paths: Iterable[str]) -> list[DirectoryId]:
        """Return the ids of those of the dirs that have one, as the metadata names them (KIP-858)."""
        return [found for path in paths if (found := self.directory_id(path)) is not None]

    # -- new logs ------------------------------------------------------------------------------------------------

    @property
    def cordoned(self) -> list[str]:
        """Paths of the dirs that take no new logs."""
        return [path for path in self._dirs if path in self._cordoned]

    def cordon(self, paths: Iterable[str]) -> None:
        """Let exactly these dirs take no new logs."""
        self._cordoned = frozenset(paths)

    def choose(self, counts: Mapping[str, int]) -> str:
        """Return where a new log goes: the dir with the fewest logs, among equals the one with most space.

        `counts` has the number of logs of a dir. The metadata may have placed a replica here before all dirs were
        cordoned: it has to go somewhere all the same. Raises StorageError if no dir is online.
        """
        online = self.online
        if not online:
            raise StorageError(", ".join(self._dirs), "no log dir is online")
        open_dirs = [path for path in online if path not in self._cordoned]
        if not open_dirs:
            logger.warning("all log dirs are cordoned, yet a new replica is to be here")
        fewest = min(counts.get(path, 0) for path in open_dirs or online)
        candidates = [path for path in open_dirs or online if counts.get(path, 0) == fewest]
        return candidates[0] if len(candidates) == 1 else max(candidates, key=self._free_bytes)

    def _free_bytes(self, path: str) -> int:
        try:
            return self._dirs[path].free_bytes()
        except OSError:
            return -1
