"""`crabka format` prepares directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.config.presets import one_node_properties
from crabka.config.properties import format_properties, parse_properties
from crabka.ids import uuid_from_text
from crabka.metadata.records import UserScramCredentialRecord
from crabka.quorum.snapshots.files import read_snapshot
from crabka.security.sasl.scram_keys import SCRAM_SHA_512, salted_password, stored_keys
from crabka.security.secret import Secret
from crabka.vfs import OsFileSystem
from tests.unit.cli.conftest import RunCommand

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
OTHER_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"

DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"
SCRAM = ("--add-scram", "SCRAM-SHA-512=[name=admin,password=canary]")
MODES = {"--standalone", "--initial-controllers", "--no-initial-controllers"}


@pytest.fixture
def properties_file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(format_properties(one_node_properties(str(tmp_path / "data"), "127.0.0.1", 0)))
    return str(path)


def test_directory_gets_the_cluster_id_once(crabka: RunCommand, properties_file: str, tmp_path: Path) -> None:
    first = crabka("format", "--config", properties_file, "--cluster-id", CLUSTER_ID, "--standalone", "--json")
    assert (first.code, first.json) == (0, {"cluster_id": CLUSTER_ID, "formatted": [str(tmp_path / "data")]})
    meta = parse_properties((tmp_path / "data" / "meta.properties").read_text())
    assert (meta["cluster.id"], meta["node.id"]) == (CLUSTER_ID, "1")
    again = crabka("format", "--config", properties_file, "--cluster-id", CLUSTER_ID, "--standalone")
    assert again.code == 2
    assert "is already formatted" in again.err
    skipped = crabka("format", "--config", properties_file, "--no-initial-controllers", "--ignore-formatted")
    assert skipped == (0, "nothing to format\n", "")
    options = ("--standalone", "--cluster-id", OTHER_CLUSTER_ID, "--ignore-formatted")
    other = crabka("format", "--config", properties_file, *options)
    assert (other.code, f"belongs to cluster {CLUSTER_ID}" in other.err) == (2, True)


def test_cluster_id_is_made_up_if_none_is_given(crabka: RunCommand, properties_file: str) -> None:
    outcome = crabka("format", "--config", properties_file, "--standalone", "--release-version", "4.3")
    assert outcome.code == 0
    assert outcome.out.startswith("formatted ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster-id", "short"), "--cluster-id: 'short'"),
        (("--feature", "metadata.version=new"), "the level is not a number"),
        (("--feature", "nonsense=1"), "unknown feature nonsense"),
        (("--release-version", "1.0"), "unknown release version 1.0"),
        (("--standalone", "--add-scram", "SCRAM-SHA-256=[name=a]"), "password= or saltedpassword= is missing"),
        (("--standalone", *SCRAM, *SCRAM), "a user is given twice for the same mechanism"),
        (("--standalone", *SCRAM, "--feature", "metadata.version=10"), "--add-scram needs metadata.version 3.5-IV2"),
        (("--standalone", "--no-initial-controllers"), "--standalone and --no-initial-controllers exclude each other"),
        (("--standalone", "--feature", "kraft.version=0"), "formatted with 1, since the quorum is dynamic"),
        (("--initial-controllers", "1@h"), "--initial-controllers: '1@h' is not of the form ID@HOST:PORT:DIRECTORY_ID"),
        (("--initial-controllers", f"2@h:1:{DIRECTORY_ID}"), "node 1, is not among them"),
        (("--no-initial-controllers",), "--cluster-id is missing"),
    ],
)
def test_bad_options_are_refused(
    crabka: RunCommand, properties_file: str, options: tuple[str, ...], message: str
) -> None:
    mode = () if set(options) & MODES else ("--standalone",)
    outcome = crabka("format", "--config", properties_file, *mode, *options)
    assert outcome.code == 2
    assert message in outcome.err


def _write(tmp_path: Path, roles: str, quorum: dict[str, str]) -> str:
    listeners = {"broker": "PLAINTEXT://127.0.0.1:9092", "controller": "CONTROLLER://127.0.0.1:9093"}
    properties = {
        "process.roles": roles,
        "node.id": "1",
        "listeners": listeners[roles],
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(tmp_path / "data"),
        **quorum,
    }
    path = tmp_path / f"{roles}.properties"
    path.write_text(format_properties(properties))
    return str(path)


STATIC = {"controller.quorum.voters": "1@127.0.0.1:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
SNAPSHOT = "__cluster_metadata-0"


@pytest.mark.parametrize(
    ("roles", "quorum", "mode", "has_voters"),
    [
        ("broker", DYNAMIC, (), False),
        ("broker", STATIC, (), False),
        ("broker", DYNAMIC, ("--no-initial-controllers",), False),
        ("broker", DYNAMIC, ("--initial-controllers", f"2@h:1:{DIRECTORY_ID}"), True),
        ("controller", STATIC, (), False),
        ("controller", STATIC, ("--no-initial-controllers",), False),
        ("controller", DYNAMIC, ("--no-initial-controllers",), False),
        ("controller", DYNAMIC, ("--standalone",), True),
        ("controller", DYNAMIC, ("--initial-controllers", f"1@h:1:{DIRECTORY_ID}"), True),
    ],
)
def test_each_kind_of_node_has_its_ways(
    crabka: RunCommand, tmp_path: Path, *, roles: str, quorum: dict[str, str], mode: tuple[str, ...], has_voters: bool
) -> None:
    path = _write(tmp_path, roles, quorum)
    outcome = crabka("format", "--config", path, "--cluster-id", CLUSTER_ID, *mode)
    assert outcome == (0, f"formatted {tmp_path / 'data'} for cluster {CLUSTER_ID}\n", "")
    assert (tmp_path / "data" / SNAPSHOT).exists() == has_voters


@pytest.mark.parametrize(
    ("roles", "quorum", "mode", "message"),
    [
        ("broker", DYNAMIC, ("--standalone",), "--standalone is for controllers"),
        ("broker", DYNAMIC, ("--standalone", "--initial-controllers", "1"), "exclude each other"),
        ("controller", DYNAMIC, (), "choose how the quorum of this controller starts"),
        ("controller", STATIC, ("--standalone",), "--standalone does not go with controller.quorum.voters"),
        ("controller", STATIC, ("--initial-controllers", "1"), "--initial-controllers does not go with"),
        ("controller", STATIC, ("--feature", "kraft.version=1"), "since controller.quorum.voters is set"),
    ],
)
def test_ways_that_do_not_fit_the_node_are_refused(
    crabka: RunCommand, tmp_path: Path, *, roles: str, quorum: dict[str, str], mode: tuple[str, ...], message: str
) -> None:
    outcome = crabka("format", "--config", _write(tmp_path, roles, quorum), "--cluster-id", CLUSTER_ID, *mode)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not (tmp_path / "data").exists()


def test_ids_can_be_made_up(crabka: RunCommand) -> None:
    made = {crabka("random-uuid").out.strip() for _ in range(2)}
    assert len(made) == 2
    assert all(uuid_from_text(text).version == 4 for text in made)


def test_first_users_are_in_the_metadata(crabka: RunCommand, properties_file: str, tmp_path: Path) -> None:
    assert crabka("format", "--config", properties_file, "--standalone", *SCRAM).code == 0
    written = read_snapshot(OsFileSystem(), str(tmp_path / "data" / "bootstrap.checkpoint")).records
    (user,) = [record for record in written if isinstance(record, UserScramCredentialRecord)]
    assert (user.name, user.mechanism, user.iterations) == ("admin", 2, 4096)
    salted = salted_password(SCRAM_SHA_512, Secret("canary"), user.salt, user.iterations)
    assert stored_keys(SCRAM_SHA_512, salted, user.salt, user.iterations) == (
        user.salt,
        user.iterations,
        user.stored_key,
        user.server_key,
    )
