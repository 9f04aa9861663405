"""Faults and journal as a test reaches them."""

from __future__ import annotations

import pytest

from crabka.embedded.client import KitClient
from crabka.embedded.edge.edge import Edge
from crabka.embedded.under_test import UnderTest


class Target(UnderTest):
    def __init__(self, edge: Edge, node_id: int | None = None) -> None:
        self.edge = edge
        self.node_id = node_id
        self.failure = ""

    @property
    def bootstrap_servers(self) -> str:
        return "h:1"

    @property
    def is_running(self) -> bool:
        return True

    def restore(self) -> None:
        pass

    def _edge(self) -> Edge:
        return self.edge

    def _client(self) -> KitClient:
        return KitClient(lambda: self.bootstrap_servers)

    def _check(self) -> None:
        if self.failure:
            raise RuntimeError(self.failure)

    def _node_id(self) -> int | None:
        return self.node_id


def test_faults_are_added_and_cleared() -> None:
    target = Target(Edge(journal=True))
    target.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, topic="t", partition=1, client_id="c")
    target.delay("Fetch", 0.5)
    target.drop_connection(after="Produce")
    target.throttle("Fetch", 100)
    assert [str(fault) for fault in target.edge.faults] == [
        "fault of Produce topic=t partition=1 client_id=c: NOT_LEADER_OR_FOLLOWER",
        "fault of Fetch: answer delayed by 0.5 s",
        "fault of Produce: connection dropped (executed)",
        "fault of Fetch: throttled for 100 ms",
    ]
    target.clear_faults()
    assert not list(target.edge.faults)
    assert (target.bootstrap, target.requests(), str(target.journal)) == ("h:1", [], "no request was recorded")


def test_faults_of_a_node_are_limited_to_it() -> None:
    target = Target(Edge(), node_id=3)
    target.delay("Fetch", 1)
    assert [str(fault.target) for fault in target.edge.faults] == ["Fetch node=3"]
    for ask in (target.requests, lambda: target.journal):
        with pytest.raises(RuntimeError, match="journal=True"):
            ask()


def test_waiting_ends_with_the_reason_of_a_failure() -> None:
    target = Target(Edge(journal=True))
    with pytest.raises(TimeoutError, match=r"requests\('Fetch'\): \[\]"):
        target.wait_until(lambda: target.requests("Fetch"), timeout=0)
    target.failure = "the broker has failed: no disk"
    with pytest.raises(RuntimeError, match="no disk"):
        target.wait_until(lambda: False)
