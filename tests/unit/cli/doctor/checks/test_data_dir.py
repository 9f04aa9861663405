"""Findings about the directory of a node."""

from __future__ import annotations

import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from crabka.cli.doctor.checks.data_dir import DataDirFacts, QuorumFault, find_data_dir
from crabka.formats.meta_properties import MetaProperties, encode_meta_properties
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.vfs import OsFileSystem
from crabka.vfs.guarded_file import Finding as CopyState
from tests.support.doctor.findings import line, only, texts

IDENTITY = MetaProperties("c", 1, UUID(int=1))
NAMES = (
    ".kafka_cleanshutdown",
    ".lock",
    "__cluster_metadata-0",
    "bootstrap.checkpoint",
    "crabka-copy-of-meta.properties",
    "lost+found",
    "meta.properties",
    "recovery-point-offset-checkpoint.tmp",
    "t-0",
    "t-1.0123456789abcdef0123456789abcdef-delete",
)
SOUND = DataDirFacts("/d", names=NAMES, identity=IDENTITY, total_bytes=100, free_bytes=50)


def test_a_directory_of_a_stopped_node_is_fine() -> None:
    outcome = find_data_dir(SOUND)
    assert texts(outcome) == [("ok", "node 1 of cluster c, 3 partitions")]
    assert outcome.unknown == []


@pytest.mark.parametrize(
    ("facts", "severity", "text", "command"),
    [
        (
            DataDirFacts("/d", exists=False),
            "error",
            "/d does not exist: the disk is not mounted, or nothing was formatted.",
            "crabka format --config server.properties",
        ),
        (DataDirFacts("/d", is_directory=False), "error", "/d is a file, not a directory.", "ls -ld /d"),
        (
            SOUND._replace(names=(), identity=None),
            "warning",
            "/d is not formatted: it has no meta.properties.",
            "crabka format --config server.properties",
        ),
        (
            SOUND._replace(names=("t-0",), identity=None),
            "error",
            "/d has 1 partition but no meta.properties: it is not known whose they are.",
            "",
        ),
        (
            SOUND._replace(identity=None, identity_problem="/d/meta.properties: version is None, known is 1"),
            "error",
            "/d/meta.properties: version is None, known is 1: the node does not start with it.",
            "sh -c 'tail -n +2 /d/crabka-copy-of-meta.properties > /d/meta.properties'",
        ),
        (
            SOUND._replace(guarded=[("/d/meta.properties", CopyState.ROTTEN)]),
            "warning",
            (
                "/d/meta.properties has changed on the disk by itself; its copy is intact and the next start writes it "
                "anew: the disk may be failing."
            ),
            "crabka log-dirs check --dir /d",
        ),
        (
            SOUND._replace(unreadable=[("/d/log-start-offset-checkpoint", "malformed")]),
            "warning",
            "log-start-offset-checkpoint cannot be read (malformed): the next start checks all logs in full.",
            "",
        ),
        (
            SOUND._replace(quorum_faults=[QuorumFault("the log lost offsets 5 to 9", "--accept-loss")]),
            "error",
            "the log lost offsets 5 to 9.",
            "crabka quorum repair --data-dir /d --accept-loss",
        ),
        (
            SOUND._replace(quorum_faults=[QuorumFault("a snapshot is damaged.", None)]),
            "error",
            "a snapshot is damaged.",
            "crabka quorum repair --data-dir /d --execute",
        ),
        (
            SOUND._replace(denied=["/d/t-0"], user="kafka"),
            "error",
            "1 path is not readable and writable for kafka (/d/t-0): a node of this user does not start.",
            "chown -R kafka /d",
        ),
        (
            # Its owner may have put it to another use.
            DataDirFacts("/d", denied=["/d"], user="kafka"),
            "error",
            "1 path is not readable and writable for kafka (/d): a node of this user does not start.",
            "",
        ),
        (
            SOUND._replace(names=[*NAMES, "notes.txt", "photos"]),
            "warning",
            "/d has 2 names that no node writes (notes.txt, photos): an unformatted directory with them is refused.",
            "ls -la /d",
        ),
        (SOUND._replace(free_bytes=2), "error", "Log dir /d has 2 B left of 100 B (2.0 %).", ""),
        (
            SOUND._replace(sync_ms=(150.0,)),
            "warning",
            "Log dir /d takes 150 ms to sync 4 KiB (slowest of 1: 150 ms).",
            "",
        ),
    ],
)
def test_what_keeps_a_node_from_starting(facts: DataDirFacts, severity: str, text: str, command: str) -> None:
    found = only(find_data_dir(facts))
    assert (found.severity.value, found.reason, line(found)) == (severity, text, command)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (SOUND._replace(locked_by=12), "/d is in use by process 12: a second node does not start here."),
        (SOUND._replace(locked_by=0), "/d is in use by another process: a second node does not start here."),
        (
            SOUND._replace(names=[name for name in NAMES if name != ".kafka_cleanshutdown"]),
            "The node did not stop cleanly: its next start checks the ends of all logs, which takes longer.",
        ),
        (
            SOUND._replace(guarded=[("/d/meta.properties", CopyState.COPY_DAMAGED)]),
            "The copy of meta.properties has a wrong checksum; the next start writes it anew.",
        ),
        (
            SOUND._replace(names=[*NAMES, "s-0.0123456789abcdef0123456789abcdef-stray"]),
            (
                "1 replica in /d set aside, since the cluster does not have them here "
                "(s-0.0123456789abcdef0123456789abcdef-stray)."
            ),
        ),
    ],
)
def test_what_a_start_survives_is_a_hint(facts: DataDirFacts, text: str) -> None:
    hint, sound = find_data_dir(facts).findings
    assert (hint.severity.value, hint.reason, sound.severity.value) == ("hint", text, "ok")


def test_the_command_for_a_lost_identity_restores_it(tmp_path: Path) -> None:
    write_meta_properties(OsFileSystem(), str(tmp_path), IDENTITY)
    (tmp_path / "meta.properties").unlink()
    facts = DataDirFacts(str(tmp_path), names=["crabka-copy-of-meta.properties", "t-0"])
    command = only(find_data_dir(facts)).command
    assert command is not None
    subprocess.run(command.words, check=True)
    assert (tmp_path / "meta.properties").read_bytes() == encode_meta_properties(IDENTITY)
