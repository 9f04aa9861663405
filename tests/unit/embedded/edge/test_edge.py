"""The edge of nodes that come and go."""

from __future__ import annotations

from crabka.embedded.edge.dispatch import EdgeDispatch
from crabka.embedded.edge.edge import Edge
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.dispatch import Dispatcher
from tests.support.nodes.sim_node import SimNode, batch


def attach(edge: Edge, node: SimNode) -> None:
    async def attach() -> None:
        assert node.node is not None
        edge.attach(node.node, node.clock, 1)

    node.run(attach())


def dispatch_of(node: SimNode) -> object:
    assert node.node is not None
    [server] = node.node.listeners._client_servers
    return server.dispatch


def test_a_node_is_intercepted_only_after_a_fault_is_asked_for(node: SimNode) -> None:
    edge = Edge()
    attach(edge, node)
    node.create_topic("t")
    assert type(dispatch_of(node)) is Dispatcher

    async def ask() -> None:
        edge.faults.fail_next("Produce", "REQUEST_TIMED_OUT")

    node.run(ask())
    assert type(dispatch_of(node)) is EdgeDispatch
    assert node.produce("t", batch(b"b")).error_code == ErrorCode.request_timed_out


def test_faults_and_journal_outlive_a_node(node: SimNode) -> None:
    edge = Edge(journal=True)
    attach(edge, node)
    node.create_topic("t")
    edge.faults.fail_next("Produce", "REQUEST_TIMED_OUT")
    assert node.node is not None
    edge.detach(node.node)
    node.restart()
    attach(edge, node)
    assert node.produce("t", batch(b"b")).error_code == ErrorCode.request_timed_out
    assert [each.api for each in edge.requests()] == ["CreateTopics", "Produce"]
