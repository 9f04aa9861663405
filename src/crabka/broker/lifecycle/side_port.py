"""The side port: `/metrics` for Prometheus, `/healthz` and `/readyz` for the supervisor of the node.

A few lines of HTTP/1.1 are all that it takes; anything but GET of a known path is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import Listener, Network

MAX_REQUEST_BYTES = 8192
IDLE_TIMEOUT_S = 30
_TEXT = "text/plain; charset=utf-8"
_METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class HttpAnswer(NamedTuple):
    """Status, content type and body."""

    status: int
    content_type: str
    body: bytes


class SidePort:
    """Serves health and metrics of one node."""

    def __init__(self, *, render_metrics: Callable[[], bytes], is_ready: Callable[[], bool]) -> None:
        self._render_metrics = render_metrics
        self._is_ready = is_ready

    async def listen(self, network: Network, host: str, port: int) -> Listener:
        """Start to serve."""
        return await network.listen(lambda: _HttpConnection(self.answer), host, port)

    def answer(self, method: str, path: str) -> HttpAnswer:
        """Answer one request."""
        if method not in ("GET", "HEAD"):
            return HttpAnswer(405, _TEXT, b"only GET is served\n")
        match path.partition("?")[0]:
            case "/metrics":
                return HttpAnswer(200, _METRICS_TEXT, self._render_metrics())
            case "/healthz":
                return HttpAnswer(200, _TEXT, b"alive\n")
            case "/readyz":
                return HttpAnswer(200, _TEXT, b"ready\n") if self._is_ready() else HttpAnswer(503, _TEXT, b"starting\n")
            case _:
                return HttpAnswer(404, _TEXT, b"known paths: /metrics /healthz /readyz\n")


class _HttpConnection(asyncio.Protocol):
    """One request, one answer, then close."""

    def __init__(self, answer: Callable[[str, str], HttpAnswer]) -> None:
        self._answer = answer
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # a stream transport
        self._timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received:
            self._send(self._respond(self._received))
        elif len(self._received) > MAX_REQUEST_BYTES:
            self._send(HttpAnswer(400, _TEXT, b"the request is too large\n"))

    def _respond(self, request: bytes) -> HttpAnswer:
        words = request.split(b"\r\n", 1)[0].split()
        try:
            method, path, _version = (word.decode("ascii") for word in words)
        except ValueError:
            return HttpAnswer(400, _TEXT, b"not an HTTP request\n")
        answer = self._answer(method, path)
        return answer._replace(body=b"") if method == "HEAD" else answer

    def _send(self, answer: HttpAnswer) -> None:
        if self._transport is None:
            return
        head = (
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode("ascii") + answer.body)
        self._transport.close()
