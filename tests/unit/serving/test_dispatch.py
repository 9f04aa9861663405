"""From a frame to its answer: what closes a connection and what does not."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from typing import cast

import pytest

from crabka.broker.api_table import TABLE
from crabka.errors import OperationError
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey, encode_request, read_response, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, pack_request
from crabka.serving.api_table import ApiTable
from crabka.serving.dispatch import Dispatcher
from crabka.serving.request import EncodedAnswer, Request
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import SimNode, WireClient, batch, build, produce_body

CONNECTION = ConnectionInfo(1, "PLAINTEXT", "h", 1)


def send(node: SimNode, data: bytes) -> WireClient:
    client = node.connect()
    client.transport.write(data)
    node.advance(50)
    return client


def frame(key: int, version: int, body: bytes = b"") -> bytes:
    return pack_request(RequestHeader(key, version, 7, "c", 0), body)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(node: SimNode) -> None:
    client = send(node, frame(ApiKey.API_VERSIONS, 99))
    answer = node.run(client.frame())
    body = read_response(ApiKey.API_VERSIONS, 0, answer, 4)
    assert body.error_code is ErrorCode.unsupported_version
    assert [(each.api_key, each.min_version, each.max_version) for each in body.api_keys] == [(18, 0, 4)]
    assert not client.closed


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, int(ApiKey.JOIN_GROUP), 0, 1, -1),
        struct.pack(">ihhih", 10, int(ApiKey.PRODUCE), 2, 1, -1),
        struct.pack(">ihhih", 10, int(ApiKey.METADATA), 99, 1, -1),
        struct.pack(">i", -5),
        struct.pack(">i", 2**31 - 1),
        frame(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x0f"),
        frame(ApiKey.PRODUCE, 9, b"\x00"),
    ],
    ids=["api", "not built", "old produce", "version", "negative", "huge", "huge array", "cut"],
)
def test_what_breaks_the_protocol_closes_the_connection_only(node: SimNode, data: bytes) -> None:
    assert send(node, data).closed
    node.create_topic("t")
    assert node.produce("t", batch(b"a")).error_code == ErrorCode.none


def test_requests_are_counted(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    node.produce("t", batch(b"a"))
    assert node.context.metrics.requests[ApiKey.PRODUCE] == 2


def test_a_handler_that_fails_costs_its_connection(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    from crabka.broker.handlers import describe_cluster

    def fail(_context: object, _request: Request) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(describe_cluster, "handle", fail)
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": False}
    with pytest.raises(ConnectionResetError):
        node.ask(ApiKey.DESCRIBE_CLUSTER, 2, **fields)
    node.create_topic("t")
    body = produce_body("t", batch(b"a"))
    assert node.ask(ApiKey.PRODUCE, 9, body).responses[0].partition_responses[0].error_code is ErrorCode.none


class _LargeBuffer:
    """What a handler holds while it fails."""


def test_a_refused_request_leaves_nothing_to_the_collector(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    from crabka.broker.handlers import api_versions

    buffers: list[weakref.ref[_LargeBuffer]] = []

    def fail(_context: object, _request: Request) -> None:
        buffer = _LargeBuffer()
        buffers.append(weakref.ref(buffer))
        # The error refers to this frame, and the frame to the error.
        error = OperationError(ErrorCode.invalid_request, "too large")
        raise error

    async def main() -> None:
        monkeypatch.setattr(api_versions, "handle", fail)
        dispatcher = Dispatcher(node.context, TABLE, refuse=lambda _request, _error: EncodedAnswer(b"refused"))
        body = encode_request(build(ApiKey.API_VERSIONS, 0))
        gc.disable()
        try:
            answer = dispatcher(CONNECTION, memoryview(frame(ApiKey.API_VERSIONS, 0, body))[4:])
            assert cast("tuple[bytes]", answer)[0].endswith(b"refused")
            assert [buffer() for buffer in buffers] == [None]
        finally:
            gc.enable()

    node.run(main())


@run_with(lambda test, node: node.run(test()))
async def test_what_is_forwarded_goes_on_as_it_came(node: SimNode) -> None:
    table = ApiTable([ApiKey.API_VERSIONS], "nowhere", forwarded=frozenset({ApiKey.API_VERSIONS}))
    taken: list[bytes] = []

    def forward(connection: ConnectionInfo, data: memoryview) -> tuple[bytes]:
        assert connection is CONNECTION
        taken.append(bytes(data))
        return (b"answer",)

    dispatcher = Dispatcher(node.context, table, forward=forward)
    before = node.context.metrics.requests[ApiKey.API_VERSIONS]
    sent = frame(ApiKey.API_VERSIONS, 0)[4:]
    assert dispatcher(CONNECTION, memoryview(sent)) == (b"answer",)
    assert taken == [sent]
    assert node.context.metrics.requests[ApiKey.API_VERSIONS] == before + 1


@run_with(lambda test, node: node.run(test()))
async def test_a_future_of_a_handler_is_given_up_with_its_connection(
    node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crabka.broker.handlers import api_versions

    waiting: list[asyncio.Future[object]] = []

    def wait(_context: object, _request: Request) -> asyncio.Future[object]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    monkeypatch.setattr(api_versions, "handle", wait)
    dispatcher = Dispatcher(node.context, TABLE)
    body = encode_request(build(ApiKey.API_VERSIONS, 0))
    lost, failed, answered = (
        dispatcher(CONNECTION, memoryview(frame(ApiKey.API_VERSIONS, 0, body))[4:]) for _ in range(3)
    )
    assert isinstance(lost, asyncio.Future)
    assert isinstance(failed, asyncio.Future)
    assert isinstance(answered, asyncio.Future)
    lost.cancel()
    waiting[1].set_exception(ZeroDivisionError())
    types = response_types(ApiKey.API_VERSIONS, 0)
    waiting[2].set_result(types.message(error_code=ErrorCode.none, api_keys=()))
    with pytest.raises(ZeroDivisionError):
        await failed
    (data,) = await answered or ()
    assert data == struct.pack(">iihi", 10, 7, 0, 0)
    assert waiting[0].cancelled()
