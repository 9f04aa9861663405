"""Frames that only the active controller can answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.forwarding import ANONYMOUS, Forwarder
from crabka.errors import WireError
from crabka.net.connection import ConnectionInfo
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from tests.support.controllers import ControllerInProcess

CLIENT = ConnectionInfo(1, "PLAINTEXT", "10.1.2.3", 4711)


class ChannelInProcess:
    """A channel whose controller is elsewhere, and yet here."""

    def __init__(self, controller: ControllerInProcess) -> None:
        self.local: Any = None
        self.request = controller.request


def forwarder(controller: ControllerInProcess) -> tuple[Forwarder, Any]:
    channel: Any = ChannelInProcess(controller)
    return Forwarder(channel, asyncio.ensure_future), channel


def test_the_frame_travels_in_an_envelope_and_its_answer_comes_back_as_bytes() -> None:
    async def main() -> None:
        controller = ControllerInProcess()
        controller.answers[ApiKey.ENVELOPE] = lambda types, _: types.message(
            response_data=b"answer", error_code=ErrorCode.none
        )
        forward, _ = forwarder(controller)
        answer: Any = forward(CLIENT, memoryview(b"question"))
        assert b"".join(await answer) == b"\x00\x00\x00\x06answer"
        ((_, body),) = controller.asked
        assert (bytes(body.request_data), bytes(body.request_principal)) == (b"question", ANONYMOUS)
        assert bytes(body.client_host_address) == b"\x0a\x01\x02\x03"

    asyncio.run(main())


def test_the_active_controller_of_the_own_node_gets_the_frame_itself() -> None:
    async def main() -> None:
        controller = ControllerInProcess()
        controller.dispatcher = lambda connection, frame: (connection.peer_host.encode(), bytes(frame))
        forward, channel = forwarder(controller)
        channel.local = controller
        assert forward(CLIENT, memoryview(b"question")) == (b"10.1.2.3", b"question")

    asyncio.run(main())


def test_an_envelope_that_is_refused_costs_the_connection() -> None:
    def refuse(types: MessageTypes, _: Any) -> Any:
        return types.message(response_data=None, error_code=ErrorCode.cluster_authorization_failed)

    async def main() -> None:
        controller = ControllerInProcess()
        controller.answers[ApiKey.ENVELOPE] = refuse
        forward, _ = forwarder(controller)
        answer: Any = forward(CLIENT, memoryview(b"question"))
        with pytest.raises(WireError, match="cluster_authorization_failed"):
            await answer

    asyncio.run(main())


@pytest.mark.parametrize(("host", "packed"), [("::1", 16), ("fe80::1%eth0", 16), ("node", 4)])
def test_addresses_of_any_kind_are_packed(host: str, packed: int) -> None:
    async def main() -> None:
        controller = ControllerInProcess()
        controller.answers[ApiKey.ENVELOPE] = lambda types, _: types.message(
            response_data=b"", error_code=ErrorCode.none
        )
        forward, _ = forwarder(controller)
        answer: Any = forward(ConnectionInfo(1, "PLAINTEXT", host, 1), memoryview(b""))
        await answer
        assert len(controller.asked[0][1].client_host_address) == packed

    asyncio.run(main())
