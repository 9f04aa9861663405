"""Health and metrics over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from crabka.broker.lifecycle.side_port import IDLE_TIMEOUT_S, MAX_REQUEST_BYTES
from tests.support.nodes.sim_node import CLIENT_HOST, NODE_HOST, SimNode


@pytest.fixture
def served() -> Iterator[SimNode]:
    with SimNode({"crabka.http.listener": f"{NODE_HOST}:8080"}) as node:
        yield node


class Browser(asyncio.Protocol):
    """Collects what comes until the other side closes."""

    def __init__(self) -> None:
        self.received = b""
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


def send(node: SimNode, *pieces: bytes) -> str:
    async def main() -> str:
        transport, browser = await node.network.host(CLIENT_HOST).connect(Browser, NODE_HOST, 8080)
        assert isinstance(browser, Browser)
        for piece in pieces:
            transport.write(piece)  # type: ignore[attr-defined] # a stream transport
            await asyncio.sleep(0.01)
        await browser.closed.wait()
        return browser.received.decode()

    return node.run(main())


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz HTTP/1.1", "200 OK", "alive\n"),
        ("GET /readyz?x=1 HTTP/1.1", "200 OK", "ready\n"),
        ("GET /nope HTTP/1.1", "404 Not Found", "known paths"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed", "only GET"),
        ("nonsense", "400 Bad Request", "not an HTTP request"),
        ("GET /\u00e4 HTTP/1.1", "400 Bad Request", "not an HTTP request"),
    ],
)
def test_requests_get_their_answer(served: SimNode, request_line: str, status: str, body: str) -> None:
    answer = send(served, f"{request_line}\r\nHost: x\r\n\r\n".encode())
    head, _, content = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\n")
    assert f"Content-Length: {len(content)}" in head
    assert content.startswith(body)


def test_metrics_come_in_pieces_too(served: SimNode) -> None:
    served.create_topic("t")
    answer = send(served, b"GET /met", b"rics HTTP/1.1\r\n", b"\r\n")
    assert "crabka_partitions 1.0" in answer
    assert 'crabka_requests_total{api="create_topics"} 1.0' in answer


def test_a_head_request_has_no_body(served: SimNode) -> None:
    answer = send(served, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert answer.endswith("\r\n\r\n")


def test_an_endless_request_is_refused(served: SimNode) -> None:
    assert "400 Bad Request" in send(served, b"x" * (MAX_REQUEST_BYTES + 1))


def test_a_silent_peer_is_cut(served: SimNode) -> None:
    started = served.loop.time()
    assert send(served) == ""
    assert IDLE_TIMEOUT_S <= served.loop.time() - started < IDLE_TIMEOUT_S + 1


def test_a_node_without_the_setting_serves_none(node: SimNode) -> None:
    assert node.node is not None
    assert node.node.side_port_address is None
