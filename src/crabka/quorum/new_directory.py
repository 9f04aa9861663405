"""Whether a directory without `meta.properties` is new: to format one in other use loses data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import ConfigError
from crabka.formats.file_names import BOOTSTRAP_SNAPSHOT, LOCK_FILE, parse_directory_name
from crabka.formats.meta_properties import FILE_NAME as META_PROPERTIES
from crabka.quorum.log.metadata_log import DIRECTORY_NAME
from crabka.quorum.snapshots.files import SnapshotId
from crabka.vfs.guarded_file import COPY_PREFIX

if TYPE_CHECKING:
    from crabka.ports import FileSystem

# A new file system has it; a node that was refused leaves its lock.
_HARMLESS: Final = frozenset({"lost+found", LOCK_FILE})
# Written before `meta.properties`: a formatting that was interrupted leaves them.
_FORMATTING: Final = (BOOTSTRAP_SNAPSHOT, META_PROPERTIES)
_SHOWN: Final = 3


def require_new(fs: FileSystem, directory: str) -> None:
    """Raise ConfigError for a directory that holds partitions or files of others."""
    if not fs.exists(directory):
        return
    if not fs.stat(directory).is_dir:
        raise ConfigError(f"{directory} is a file, not a directory")
    found = [name for name in fs.listdir(directory) if not _is_of_formatting(fs, directory, name)]
    if not found:
        return
    partitions = [name for name in found if parse_directory_name(name) is not None]
    named = partitions or found
    shown = ", ".join(named[:_SHOWN]) + (", …" if len(named) > _SHOWN else "")
    if partitions:
        raise ConfigError(
            f"{directory} has partitions ({shown}) but no {META_PROPERTIES}: it was the data directory of a node; "
            f"restore its {META_PROPERTIES}, or name another directory"
        )
    raise ConfigError(f"{directory} is no data directory and not empty ({shown}): name a new or empty directory")


def _is_of_formatting(fs: FileSystem, directory: str, name: str) -> bool:
    if name == DIRECTORY_NAME:
        first = SnapshotId(0, 0).file_name
        return all(each.startswith(first) for each in fs.listdir(f"{directory}/{name}"))
    return name in _HARMLESS or name.removeprefix(COPY_PREFIX).startswith(_FORMATTING)
