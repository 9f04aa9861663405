"""`crabka doctor` against a node, and where there is none. Planted problems are in the integration tests."""

from __future__ import annotations

import pytest

from crabka.embedded import Broker
from tests.support.wire.ports import free_port
from tests.unit.cli.conftest import RunCommand


def test_a_node_is_examined(on_broker: RunCommand) -> None:
    result = on_broker("doctor", "--json")
    found = result.json
    # Other tests leave groups and transactions on this node; none of them makes a check fail.
    assert not [each for each in found["findings"] if "could not be checked" in each["reason"]]
    assert not [each for each in found["findings"] if "defect" in each["reason"]]
    assert result.code == (0 if found["healthy"] else 1)
    checked = {each["check"] for each in (*found["findings"], *found["not_checked"])}
    assert checked == {
        *("addresses", "quorum", "partitions", "disks", "damage", "transactions", "groups"),
        *("tier", "tables", "settings", "versions", "clock", "descriptors"),
    }


def test_without_a_broker_the_directory_is_suggested(crabka: RunCommand) -> None:
    port = free_port()
    result = crabka("doctor", "--bootstrap", f"127.0.0.1:{port}", "--timeout", "5s")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"crabka: cannot connect to 127.0.0.1:{port}: ")
    assert "`crabka doctor --data-dir DIR`" in result.err


@pytest.mark.parametrize(
    ("api", "code", "text"),
    [
        ("DescribeConfigs", 2, "the doctor needs DESCRIBE and DESCRIBE_CONFIGS on the cluster"),
        ("DescribeQuorum", 1, "warning\tquorum\tThis could not be checked: "),
        ("DescribeLogDirs", 1, "warning\tdisks\tThis could not be checked: "),
    ],
)
def test_missing_permissions_are_not_reported_as_a_broken_node(
    crabka: RunCommand, api: str, code: int, text: str
) -> None:
    with Broker() as broker:
        broker.fail_next(api, error="CLUSTER_AUTHORIZATION_FAILED", times=None)
        result = crabka("doctor", "--bootstrap", broker.bootstrap_servers, "-q")
    assert result.code == code
    assert text in result.out + result.err
    for untrue in ("No active controller", "cannot be reached", "--data-dir"):
        assert untrue not in result.out + result.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--timeout", "0"), "--timeout must be more than 0"),
        (("--timeout", "soon"), "soon is no duration"),
        (("--data-dir", ""), "--data-dir is empty"),
        (("--table", "t"), "--table needs --lake URL"),
        (("--bootstrap", "::"), "is not host:port"),
        (("--command-config", "/no/such/file"), "cannot read /no/such/file"),
        (("everything",), "unexpected extra argument"),
    ],
)
def test_mistakes_on_the_command_line_are_no_findings(
    crabka: RunCommand, arguments: tuple[str, ...], text: str
) -> None:
    result = crabka("doctor", *arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


def test_a_directory_is_examined(crabka: RunCommand, tmp_path: object) -> None:
    result = crabka("doctor", "--data-dir", str(tmp_path), "-q")
    assert result.code == 1
    assert result.out.splitlines()[1].startswith(f"warning\tdirectory\t{tmp_path} is not formatted")
