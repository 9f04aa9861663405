"""`crabka format` prepares directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.config.one_node import one_node_properties
from crabka.config.properties import format_properties, parse_properties
from tests.unit.cli.conftest import RunCommand

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
OTHER_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def properties_file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(format_properties(one_node_properties(str(tmp_path / "data"), "127.0.0.1", 0)))
    return str(path)


def test_directory_gets_the_cluster_id_once(crabka: RunCommand, properties_file: str, tmp_path: Path) -> None:
    first = crabka("format", "--config", properties_file, "--cluster-id", CLUSTER_ID, "--json")
    assert (first.code, first.json) == (0, {"cluster_id": CLUSTER_ID, "formatted": [str(tmp_path / "data")]})
    meta = parse_properties((tmp_path / "data" / "meta.properties").read_text())
    assert (meta["cluster.id"], meta["node.id"]) == (CLUSTER_ID, "1")
    again = crabka("format", "--config", properties_file, "--cluster-id", CLUSTER_ID)
    assert again.code == 2
    assert "is already formatted" in again.err
    skipped = crabka("format", "--config", properties_file, "--ignore-formatted")
    assert skipped == (0, "nothing to format\n", "")
    other = crabka("format", "--config", properties_file, "--cluster-id", OTHER_CLUSTER_ID, "--ignore-formatted")
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
        (("--standalone", "--no-initial-controllers"), "exclude each other"),
    ],
)
def test_bad_options_are_refused(
    crabka: RunCommand, properties_file: str, options: tuple[str, ...], message: str
) -> None:
    outcome = crabka("format", "--config", properties_file, *options)
    assert outcome.code == 2
    assert message in outcome.err
