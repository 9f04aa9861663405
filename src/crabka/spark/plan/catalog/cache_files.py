"""A cache of tier metadata on the disk of the driver, between the plans of a job and between jobs.

The files are hints: what is missing, torn or of another version is read from the source again. Their form is that of
the broker's snapshots of the metadata topic.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from crabka.errors import CorruptDataError
from crabka.remote_topic.snapshot import Snapshot, decode_snapshot, encode_snapshot

logger = logging.getLogger(__name__)

DIRECTORY_VARIABLE: Final = "CRABKA_CACHE_DIR"


def cache_directory() -> Path:
    """Return where files are kept: as the environment says, else in the user's cache, else among temporary files."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given:
        return Path(given) / "spark"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home) and os.access(home if os.path.isdir(home) else os.path.dirname(home), os.W_OK):
        return Path(home) / "crabka" / "spark"
    shared = Path(tempfile.gettempdir()) / f"crabka-spark-{os.getuid()}"
    return shared if _is_private(shared) else _own_directory()


def cache_path(kind: str, *parts: object) -> Path:
    """Return the file for something that `parts` identify."""
    digest = hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:32]
    return cache_directory() / f"{kind}-{digest}.snapshot"


def _is_private(directory: Path) -> bool:
    """Return whether a directory that is made if it is missing belongs to this user alone.

    Among temporary files any user can have made one of that name, and would decide what is read from it.
    """
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    except OSError as error:
        logger.info("the metadata of the tier cannot be cached: %s", error)
    return True


@cache
def _own_directory() -> Path:
    """Return a new directory that lasts as long as this process."""
    directory = tempfile.mkdtemp(prefix="crabka-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def load_cache(path: Path) -> Snapshot | None:
    """Return what a file holds, None if there is none that can be used."""
    try:
        return decode_snapshot(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except (OSError, CorruptDataError) as error:
        logger.info("cached metadata of the tier is read again: %s", error)
        return None


def store_cache(path: Path, snapshot: Snapshot) -> None:
    """Replace a file in one step; that it cannot be written costs time later and nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(encode_snapshot(snapshot))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        logger.info("the metadata of the tier cannot be cached: %s", error)
