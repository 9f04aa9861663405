"""The directory of a node that does not run or does not start: identity, small files, quorum, rights, room."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.checks.disks import room_finding, speed_finding
from crabka.cli.doctor.finding import (
    Command,
    Finding,
    Outcome,
    counted,
    error,
    fine,
    hint,
    locally,
    shell,
    some,
    warning,
)
from crabka.formats import file_names as naming
from crabka.formats.file_names import parse_directory_name
from crabka.formats.meta_properties import FILE_NAME as META_PROPERTIES
from crabka.formats.meta_properties import MetaProperties
from crabka.vfs.guarded_file import COPY_PREFIX
from crabka.vfs.guarded_file import Finding as CopyState

_KNOWN: Final = frozenset(
    {
        META_PROPERTIES,
        naming.RECOVERY_POINT_CHECKPOINT,
        naming.REPLICATION_CHECKPOINT,
        naming.LOG_START_CHECKPOINT,
        naming.CLEANER_CHECKPOINT,
        naming.BOOTSTRAP_SNAPSHOT,
        naming.CLEAN_SHUTDOWN,
        naming.LOCK_FILE,
        naming.REMOTE_INDEX_CACHE,
        # Of the file system, at the root of a mount.
        "lost+found",
    }
)
_LEFTOVERS: Final = (".tmp", ".deleted")


class QuorumFault(NamedTuple):
    """A step that `crabka quorum repair` would take; the option accepts a loss."""

    problem: str
    option: str | None


class DataDirFacts(NamedTuple):
    """What is in a directory, read without changing it."""

    path: str
    exists: bool = True
    is_directory: bool = True
    names: Sequence[str] = ()
    # The process that holds the lock: 0 if it is not known which, None if the directory is free.
    locked_by: int | None = None
    identity: MetaProperties | None = None
    identity_problem: str | None = None
    # Small files that differ from their copies, and checkpoints that cannot be read.
    guarded: Sequence[tuple[str, CopyState]] = ()
    unreadable: Sequence[tuple[str, str]] = ()
    quorum_faults: Sequence[QuorumFault] = ()
    # Paths that this user cannot read or write.
    denied: Sequence[str] = ()
    user: str = ""
    total_bytes: int = -1
    free_bytes: int = -1
    sync_ms: tuple[float, ...] = ()


def find_data_dir(facts: DataDirFacts) -> Outcome:
    """Return what keeps a node from starting here, or will trouble it."""
    if not facts.exists:
        new = locally("format", "--config", "server.properties")
        return Outcome([error(f"{facts.path} does not exist: the disk is not mounted, or nothing was formatted.", new)])
    if not facts.is_directory:
        return Outcome([error(f"{facts.path} is a file, not a directory.", shell("ls", "-ld", facts.path))])
    if facts.path in facts.denied and not facts.names:
        return Outcome([*_denied(facts)])
    findings = [*_identity(facts), *_small_files(facts), *_quorum(facts), *_denied(facts), *_names(facts)]
    findings += [found for found in (room_finding(facts.path, facts.total_bytes, facts.free_bytes),) if found]
    findings += [found for found in (speed_finding(facts.path, facts.sync_ms),) if found]
    findings += _lock(facts)
    if not any(found.severity.is_problem for found in findings):
        findings.append(fine(_summary(facts)))
    unknown = [] if facts.locked_by is None else ["metadata log: a process uses the directory"]
    return Outcome(findings, unknown)


def _partitions(facts: DataDirFacts) -> list[str]:
    return [name for name in facts.names if parse_directory_name(name) is not None]


def _identity(facts: DataDirFacts) -> Iterator[Finding]:
    path = f"{facts.path}/{META_PROPERTIES}"
    if facts.identity is not None:
        return
    if facts.identity_problem is not None:
        yield error(f"{facts.identity_problem.rstrip('.')}: the node does not start with it.", _restore(facts), [path])
        return
    partitions = _partitions(facts)
    if partitions:
        yield error(
            f"{facts.path} has {counted(len(partitions), 'partition')} but no {META_PROPERTIES}: it is not known whose "
            "they are.",
            _restore(facts),
            [path],
        )
    else:
        yield warning(
            f"{facts.path} is not formatted: it has no {META_PROPERTIES}.",
            locally("format", "--config", "server.properties"),
            [path],
        )


def _restore(facts: DataDirFacts) -> Command | None:
    """Return the command that writes meta.properties from its copy, whose first line is a checksum."""
    copy = COPY_PREFIX + META_PROPERTIES
    if copy not in facts.names:
        return None
    source, target = shlex.quote(f"{facts.path}/{copy}"), shlex.quote(f"{facts.path}/{META_PROPERTIES}")
    return shell("sh", "-c", f"tail -n +2 {source} > {target}")


def _small_files(facts: DataDirFacts) -> Iterator[Finding]:
    for path, state in facts.guarded:
        if state is CopyState.ROTTEN:
            yield warning(
                f"{path} has changed on the disk by itself; its copy is intact and the next start writes it anew: the "
                "disk may be failing.",
                locally("log-dirs", "check", "--dir", facts.path),
                [path],
            )
        elif state is CopyState.COPY_DAMAGED:
            name = posixpath.basename(path)
            yield hint(f"The copy of {name} has a wrong checksum; the next start writes it anew.", None, [path])
    for path, reason in facts.unreadable:
        yield warning(
            f"{posixpath.basename(path)} cannot be read ({reason}): the next start checks all logs in full.",
            None,
            [path],
        )


def _quorum(facts: DataDirFacts) -> Iterator[Finding]:
    for each in facts.quorum_faults:
        # A step that gives data up is shown as a plan first.
        option = "--execute" if each.option is None else each.option
        yield error(
            f"{each.problem.rstrip('.')}.", locally("quorum", "repair", "--data-dir", facts.path, option), [facts.path]
        )


def _denied(facts: DataDirFacts) -> Iterator[Finding]:
    if facts.denied:
        verb = "is" if len(facts.denied) == 1 else "are"
        yield error(
            f"{counted(len(facts.denied), 'path')} {verb} not readable and writable for {facts.user} "
            f"({some(facts.denied)}): a node of this user does not start.",
            # Not for a directory that no node has formatted.
            shell("chown", "-R", facts.user, facts.path) if facts.identity is not None else None,
            facts.denied,
        )


def _names(facts: DataDirFacts) -> Iterator[Finding]:
    foreign = [name for name in facts.names if not _is_known(name)]
    if foreign:
        yield warning(
            f"{facts.path} has {counted(len(foreign), 'name')} that no node writes ({some(foreign)}): an unformatted "
            "directory with them is refused.",
            shell("ls", "-la", facts.path),
            foreign,
        )
    strays = [name for name in facts.names if (found := parse_directory_name(name)) and found.kind.value == "stray"]
    if strays:
        yield hint(
            f"{counted(len(strays), 'replica')} in {facts.path} set aside, since the cluster does not have them here "
            f"({some(strays)}).",
            None,
            strays,
        )


def _is_known(name: str) -> bool:
    bare = name.removeprefix(COPY_PREFIX)
    for suffix in _LEFTOVERS:
        bare = bare.removesuffix(suffix)
    return bare in _KNOWN or parse_directory_name(name) is not None


def _lock(facts: DataDirFacts) -> Iterator[Finding]:
    if facts.locked_by is not None:
        process = f"process {facts.locked_by}" if facts.locked_by else "another process"
        yield hint(f"{facts.path} is in use by {process}: a second node does not start here.", places=[facts.path])
    elif facts.identity is not None and naming.CLEAN_SHUTDOWN not in facts.names and _partitions(facts):
        yield hint("The node did not stop cleanly: its next start checks the ends of all logs, which takes longer.")


def _summary(facts: DataDirFacts) -> str:
    found = facts.identity
    if found is None:
        return "the directory can be used"
    logs = counted(len(_partitions(facts)), "partition")
    return f"node {found.node_id} of cluster {found.cluster_id}, {logs}"
