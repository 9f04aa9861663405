"""Frames that only the active controller can answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.controller_link.forwarding import Forwarder
from crabka.clients.errors import VersionMismatchError
from crabka.errors import OperationError, WireError
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey, MessageTypes, encode_request, read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, pack_request, parse_response_header
from crabka.security.principal import ANONYMOUS, pack_principal
from tests.support.async_tests import real_time, run_with
from tests.support.nodes.controller_stand_in import ControllerInProcess
from tests.support.nodes.sim_node import build

CLIENT = ConnectionInfo(1, "PLAINTEXT", "10.1.2.3", 4711)


class ChannelInProcess:
    """A channel whose controller is elsewhere, and yet here."""

    def __init__(self, controller: ControllerInProcess) -> None:
        self.local: Any = None
        self.request = controller.request


def forwarder(controller: ControllerInProcess) -> tuple[Forwarder, Any]:
    channel: Any = ChannelInProcess(controller)
    return Forwarder(channel, asyncio.ensure_future), channel


@run_with(real_time)
async def test_the_frame_travels_in_an_envelope_and_its_answer_comes_back_as_bytes() -> None:
    controller = ControllerInProcess()
    controller.answers[ApiKey.ENVELOPE] = lambda types, _: types.message(
        response_data=b"answer", error_code=ErrorCode.none
    )
    forward, _ = forwarder(controller)
    answer: Any = forward(CLIENT, memoryview(b"question"))
    assert b"".join(await answer) == b"\x00\x00\x00\x06answer"
    ((_, body),) = controller.asked
    assert (bytes(body.request_data), bytes(body.request_principal)) == (b"question", pack_principal(ANONYMOUS))
    assert bytes(body.client_host_address) == b"\x0a\x01\x02\x03"


@run_with(real_time)
async def test_the_active_controller_of_the_own_node_gets_the_frame_itself() -> None:
    controller = ControllerInProcess()
    controller.dispatcher = lambda connection, frame: (connection.peer_host.encode(), bytes(frame))
    forward, channel = forwarder(controller)
    channel.local = controller
    assert forward(CLIENT, memoryview(b"question")) == (b"10.1.2.3", b"question")


def unregister_frame() -> memoryview:
    body = encode_request(build(ApiKey.UNREGISTER_BROKER, 0, broker_id=1))
    return memoryview(pack_request(RequestHeader(ApiKey.UNREGISTER_BROKER, 0, 77, "me", 0), body))[4:]


def reported(answer: Any) -> tuple[int, ErrorCode]:
    """Return the correlation id and the code of an answer to `unregister_frame`."""
    frame = memoryview(b"".join(answer))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, offset = parse_response_header(frame[4:], ApiKey.UNREGISTER_BROKER, 0)
    return correlation_id, read_response(ApiKey.UNREGISTER_BROKER, 0, frame[4:], offset).error_code


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OperationError(ErrorCode.request_timed_out, "no active controller"), ErrorCode.request_timed_out),
        (VersionMismatchError("no Envelope"), ErrorCode.unknown_server_error),
    ],
)
@run_with(real_time)
async def test_a_controller_that_does_not_answer_is_reported_in_the_form_of_the_request(
    failure: Exception, code: ErrorCode
) -> None:
    def fail(_types: MessageTypes, _body: Any) -> Any:
        raise failure

    controller = ControllerInProcess()
    controller.answers[ApiKey.ENVELOPE] = fail
    forward, _ = forwarder(controller)
    answer: Any = forward(CLIENT, unregister_frame())
    assert reported(await answer) == (77, code)


@pytest.mark.parametrize("code", [ErrorCode.cluster_authorization_failed, ErrorCode.unsupported_version])
@run_with(real_time)
async def test_an_envelope_that_is_refused_is_no_fault_of_the_client(code: ErrorCode) -> None:
    def refuse(types: MessageTypes, _: Any) -> Any:
        return types.message(response_data=None, error_code=code)

    controller = ControllerInProcess()
    controller.answers[ApiKey.ENVELOPE] = refuse
    forward, _ = forwarder(controller)
    answer: Any = forward(CLIENT, unregister_frame())
    if code is ErrorCode.unsupported_version:
        # The client is to connect anew and to learn which versions the controller of today has.
        with pytest.raises(WireError, match="version"):
            await answer
    else:
        assert reported(await answer) == (77, ErrorCode.unknown_server_error)


@pytest.mark.parametrize(("host", "packed"), [("::1", 16), ("fe80::1%eth0", 16), ("node", 4)])
@run_with(real_time)
async def test_addresses_of_any_kind_are_packed(host: str, packed: int) -> None:
    controller = ControllerInProcess()
    controller.answers[ApiKey.ENVELOPE] = lambda types, _: types.message(response_data=b"", error_code=ErrorCode.none)
    forward, _ = forwarder(controller)
    answer: Any = forward(ConnectionInfo(1, "PLAINTEXT", host, 1), memoryview(b""))
    await answer
    assert len(controller.asked[0][1].client_host_address) == packed
