"""Every command that talks to a cluster has `--timeout`, and it counts."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.cli import session
from crabka.cli.app import app
from crabka.cli.tree import build_tree, leaves
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from tests.unit.cli.conftest import RunCommand


def test_all_commands_with_a_cluster_have_the_option_once() -> None:
    found = {}
    for words, command in leaves(build_tree(app)):
        names = [each.name for each in command.params]
        found[words] = ("bootstrap" in names, names.count("timeout"))
    assert {words for words, (has_cluster, count) in found.items() if count != int(has_cluster)} == set()
    assert found["topics list"] == (True, 1)


def test_the_option_limits_requests_and_the_default_is_half_a_minute(
    on_broker: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[ClusterSettings] = []

    class Recording(Cluster):
        def __init__(self, runtime: Any, bootstrap: Any, settings: Any, source: Any) -> None:
            used.append(settings)
            super().__init__(runtime, bootstrap, settings, source)

    monkeypatch.setattr(session, "Cluster", Recording)
    assert on_broker("topics", "list", "--timeout", "9s").code == 0
    assert on_broker("topics", "list").code == 0
    assert [each.connection.request_timeout_ms for each in used] == [9_000, 30_000]
    assert [each.metadata_timeout_ms for each in used] == [9_000, 10_000]


def test_a_bad_duration_is_refused(crabka: RunCommand) -> None:
    refused = crabka("topics", "list", "--timeout", "soon")
    assert (refused.code, "soon is no duration" in refused.err) == (2, True)
