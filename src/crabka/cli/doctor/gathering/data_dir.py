"""Reads the directory of a node without changing it, also while the node runs."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from crabka.cli.doctor.checks.data_dir import DataDirFacts, QuorumFault
from crabka.cli.doctor.gathering import machine
from crabka.errors import CrabkaError
from crabka.formats.meta_properties import FILE_NAME as META_PROPERTIES
from crabka.formats.meta_properties import MetaProperties
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.dirs.log_dir import CHECKPOINT_NAMES
from crabka.log.dirs.meta_properties import read_meta_properties
from crabka.quorum.healing.repair import plan_repair
from crabka.quorum.log.metadata_log import DIRECTORY_NAME
from crabka.vfs import OsFileSystem, read_guarded
from crabka.vfs.guarded_file import Finding as CopyState

_PATHS_TRIED: Final = 20_000


def gather_data_dir(path: str) -> DataDirFacts:
    """Return the facts about a directory; blocks."""
    root = Path(path)
    if not root.exists():
        return DataDirFacts(path, exists=False)
    if not root.is_dir():
        return DataDirFacts(path, is_directory=False)
    user = _user()
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return DataDirFacts(path, denied=(path,), user=user)
    identity, problem = _identity(path)
    locked_by = machine.lock_holder(path)
    usage = OsFileSystem().disk_usage(path)
    return DataDirFacts(
        path,
        names=names,
        locked_by=locked_by,
        identity=identity,
        identity_problem=problem,
        guarded=tuple(_guarded(path, names)),
        unreadable=tuple(_unreadable(path, names)),
        quorum_faults=() if locked_by is not None or identity is None else _quorum_faults(path, names),
        denied=tuple(islice(_denied(root), _PATHS_TRIED)),
        user=user,
        total_bytes=usage.total_bytes,
        free_bytes=usage.free_bytes,
        sync_ms=_syncs(path),
    )


def _identity(path: str) -> tuple[MetaProperties | None, str | None]:
    try:
        return read_meta_properties(OsFileSystem(), path), None
    except (CrabkaError, OSError) as error:
        return None, str(error)


def _guarded(path: str, names: list[str]) -> Iterator[tuple[str, CopyState]]:
    for name in (META_PROPERTIES, *CHECKPOINT_NAMES):
        if name in names:
            try:
                yield f"{path}/{name}", read_guarded(OsFileSystem(), f"{path}/{name}").finding
            except OSError:
                # It is listed among what cannot be read.
                continue


def _unreadable(path: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in CHECKPOINT_NAMES:
        if name in names:
            try:
                read_offset_checkpoint(OsFileSystem(), f"{path}/{name}")
            except (CrabkaError, OSError) as error:
                yield f"{path}/{name}", str(error)


def _quorum_faults(path: str, names: list[str]) -> tuple[QuorumFault, ...]:
    if DIRECTORY_NAME not in names:
        return ()
    try:
        return tuple(QuorumFault(step.problem, step.option) for step in plan_repair(OsFileSystem(), path))
    except (CrabkaError, OSError) as error:
        return (QuorumFault(str(error), None),)


def _denied(root: Path) -> Iterator[str]:
    """Yield what this user cannot read and write: the directory, its files, and the files of its logs."""
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        yield str(root)
    tried = 0
    for entry in _entries(root):
        nested = _entries(Path(entry.path)) if entry.is_dir(follow_symlinks=False) else iter(())
        for each in (entry, *nested):
            tried += 1
            wanted = os.R_OK | os.W_OK | (os.X_OK if each.is_dir(follow_symlinks=False) else 0)
            if not os.access(each.path, wanted):
                yield each.path
        if tried > _PATHS_TRIED:
            return


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            yield from sorted(found, key=lambda each: each.name)
    except OSError:
        # A node that runs removes directories; one that cannot be read is listed itself.
        return


def _syncs(path: str) -> tuple[float, ...]:
    try:
        return machine.measure_syncs(path)
    except OSError:
        return ()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())
