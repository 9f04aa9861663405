"""A small HTTP server in threads whose answers a test decides, and one that passes requests on with faults on demand.

Speaks just enough HTTP/1.1 for clients of object stores: bodies with a length, connections that stay open.
"""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})


@dataclass(frozen=True)
class HttpRequest:
    """A whole request."""

    method: str
    path: str  # with the query
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class CannedAnswer:
    """A whole answer. With `cut_to`, only so many bytes of the body are sent before the connection is closed."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what Content-Length says where it is not that of the body, as after HEAD
    cut_to: int | None = None


class ScriptedHttpServer:
    """Answers requests by a function, each in its own thread; None closes the connection without an answer."""

    def __init__(self, answer: Callable[[HttpRequest], CannedAnswer | None]) -> None:
        self.requests: list[HttpRequest] = []
        owner = self

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = HttpRequest(self.command, self.path, dict(self.headers.items()), body)
                owner.requests.append(request)
                _send(self, answer(request))

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - names that http.server calls

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
                pass

        self._server = _QuietServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def endpoint(self) -> str:
        """Where clients find the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def seen(self, method: str, part_of_path: str = "") -> list[HttpRequest]:
        """Return the requests so far of a method whose path holds a text."""
        return [request for request in self.requests if request.method == method and part_of_path in request.path]

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; threads of connections that are still open end with them."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what tests are about; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _send(handler: BaseHTTPRequestHandler, answer: CannedAnswer | None) -> None:
    if answer is None:
        handler.close_connection = True
        return
    handler.send_response(answer.status)
    for name, value in answer.headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
    handler.end_headers()
    if answer.cut_to is not None:
        handler.close_connection = True
    if handler.command != "HEAD":
        handler.wfile.write(answer.body if answer.cut_to is None else answer.body[: answer.cut_to])


@dataclass
class HttpFault:
    """What happens to requests of a method whose path holds a text: `skip` of them pass, then `times` are hit."""

    method: str = ""
    path: str = ""
    skip: int = 0
    times: int | None = None
    answer: CannedAnswer | None = None  # instead of asking the server; None with no other effect closes the connection
    wait_for: threading.Event | None = None  # before the request is passed on
    cut_to: int | None = None  # bytes of the real answer that arrive
    lose_answer: bool = False  # the server does it, and the client hears nothing
    hits: int = field(default=0, init=False)
    _matches: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def strikes(self, request: HttpRequest) -> bool:
        """Count a request and say whether it is hit."""
        with self._lock:
            if self.method not in ("", request.method) or self.path not in request.path:
                return False
            self._matches += 1
            if self._matches <= self.skip or (self.times is not None and self.hits >= self.times):
                return False
            self.hits += 1
            return True


class FaultyProxy(ScriptedHttpServer):
    """Passes requests on to a server, unless a fault strikes."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__(self._answer)
        self._upstream_port = upstream_port
        self.faults: list[HttpFault] = []

    def add(self, fault: HttpFault) -> HttpFault:
        """Let a fault strike from now on."""
        self.faults.append(fault)
        return fault

    def _answer(self, request: HttpRequest) -> CannedAnswer | None:
        fault = next((fault for fault in list(self.faults) if fault.strikes(request)), None)
        if fault is None:
            return self._forward(request)
        if fault.wait_for is not None:
            fault.wait_for.wait(120)
            return self._forward(request)
        if fault.lose_answer:
            self._forward(request)
            return None
        if fault.cut_to is None:
            return fault.answer
        whole = self._forward(request)
        return CannedAnswer(whole.status, whole.body, whole.headers, cut_to=fault.cut_to)

    def _forward(self, request: HttpRequest) -> CannedAnswer:
        connection = http.client.HTTPConnection("127.0.0.1", self._upstream_port, timeout=60)
        try:
            # The signature covers the host that the client named, so headers go on as they came.
            connection.request(request.method, request.path, request.body or None, dict(request.headers))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_HEADERS}
        length = answer.getheader("Content-Length") if request.method == "HEAD" else None
        return CannedAnswer(answer.status, body, headers, length=None if length is None else int(length))
