"""The fixtures that the package brings for other people's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crabka.embedded import Broker, TopicFactory

# Each test does to the shared broker what the next one must not see.
SHARED_BROKER = """
import pytest

from crabka.clients import SyncProducer
from crabka.embedded import Broker, Cluster

seen = []


def test_kills_the_broker(crabka_broker, crabka_topic):
    seen.append((crabka_broker, crabka_topic))
    crabka_broker.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=None)
    crabka_broker.kill()


def test_pauses_the_broker(crabka_broker, crabka_topic):
    assert crabka_broker is seen[0][0]
    assert crabka_broker.is_running
    with pytest.raises(Exception, match="unknown_topic"):
        crabka_broker.records(seen[0][1])
    with SyncProducer(crabka_broker.bootstrap_servers) as producer:
        producer.send(crabka_topic, b"value").result()
    assert crabka_broker.requests("Produce")
    crabka_broker.pause()


def test_fails_after_requests(crabka_broker, crabka_topic):
    assert crabka_broker.requests() == []
    crabka_broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER")
    with SyncProducer(crabka_broker.bootstrap_servers) as producer:
        producer.send(crabka_topic, b"value").result()
    assert "the test" == "wrong"


def test_fails_with_a_broker_of_its_own():
    with Broker(journal=False) as mine:
        assert mine is None


@pytest.mark.parametrize("number", [1, 2])
def test_cluster_is_made_anew(crabka_cluster, crabka_topic, number):
    assert isinstance(crabka_cluster, Cluster)
    assert crabka_cluster not in seen
    seen.append(crabka_cluster)
    assert crabka_cluster.records(crabka_topic) == []
"""
OWN_SCOPES = """
[pytest]
crabka_broker_scope = function
crabka_cluster_scope = session
"""
REFUSED_BROKER = """
from crabka.embedded import Broker


def test_settings():
    Broker({"num.partition": 3})
"""

SHARED_CLUSTER = """
brokers, clusters = set(), set()


def test_first(crabka_broker, crabka_cluster):
    brokers.add(id(crabka_broker))
    clusters.add(crabka_cluster)
    crabka_cluster.kill(1)
    crabka_cluster.partition([2], [3])


def test_second(crabka_broker, crabka_cluster, crabka_topic_factory):
    assert crabka_cluster in clusters
    assert all(node.is_running for node in crabka_cluster)
    assert crabka_broker.requests() == []
    crabka_cluster.create_topic("wide", replicas=3)
    assert crabka_cluster.produce("wide", ["value"])
"""


@pytest.mark.allow_leaks("the broker of the session keeps the client of the kit")
def test_topic_exists_on_the_session_broker(
    crabka_broker: Broker, crabka_topic: str, crabka_topic_factory: TopicFactory
) -> None:
    assert crabka_topic.startswith("test_topic_exists_on_the_session_broker-")
    assert crabka_broker.records(crabka_topic) == []
    wide = crabka_topic_factory("wide", partitions=3)
    assert wide.endswith("-wide")
    assert {each.partition for each in crabka_broker.produce(wide, ["a"] * 3, partition=2)} == {2}


def test_broker_is_one_for_the_session(crabka_broker: Broker, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("crabka_broker") is crabka_broker


def test_tests_that_share_a_broker_find_it_whole(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, SHARED_BROKER)
    assert "2 failed, 4 passed" in output, output
    assert code == 1
    assert "assert 'the test' == 'wrong'" in output
    _, _, requests = output.partition("requests to crabka_broker ---")
    assert "NOT_LEADER_OR_FOLLOWER [fault: NOT_LEADER_OR_FOLLOWER]" in requests
    assert "requests to mine ---" in output
    assert "requests are not recorded" in output


def test_a_broker_that_was_never_made_has_no_requests(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, REFUSED_BROKER)
    assert code == 1
    assert "did you mean num.partitions?" in output
    assert "requests to" not in output


def test_scopes_are_settings(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(OWN_SCOPES)
    code, output = run_pytest(tmp_path, SHARED_CLUSTER)
    assert code == 0, output


def test_an_unknown_scope_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ncrabka_broker_scope = suite\n")
    code, output = run_pytest(tmp_path, "")
    assert code == 4
    assert output.strip() == ("ERROR: crabka_broker_scope is session, package, module, class or function, not 'suite'")


def run_pytest(directory: Path, tests: str) -> tuple[int, str]:
    (directory / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    environment = os.environ | {"PYTEST_ADDOPTS": "", "COLUMNS": "80"}
    result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr
