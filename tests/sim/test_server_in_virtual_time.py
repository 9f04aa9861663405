"""The server on the simulated network: random delays and chunks, partitions, and hours that pass in no time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from crabka.net import ConnectionInfo, ConnectionLimits, Server
from crabka.protocol.frames import FrameBuffer
from crabka.testing import SimulatedNetwork, VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time
from tests.support.wire.net import framed

PORT = 9092
HOUR_MS = 3_600_000


class Peer(asyncio.BufferedProtocol):
    """A client that collects the frames it gets."""

    def __init__(self) -> None:
        self._buffer = FrameBuffer()
        self.frames: list[bytes] = []
        self.lost_at: float | None = None
        self.changed = asyncio.Event()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.frames += [bytes(frame) for frame in self._buffer.buffer_updated(nbytes)]
        self.changed.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lost_at = asyncio.get_running_loop().time()
        self.changed.set()

    async def wait_frames(self, count: int) -> None:
        while len(self.frames) < count:
            self.changed.clear()
            await self.changed.wait()


def delayed_echo(rng: random.Random) -> Any:
    """Answer some requests at once, others in a random order."""

    def dispatch(_info: ConnectionInfo, frame: memoryview) -> Any:
        answer = [framed(bytes(frame))]
        if rng.random() < 0.5:
            return answer
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_later(rng.random(), resolve, future, answer)
        return future

    def resolve(future: asyncio.Future[Any], answer: list[bytes]) -> None:
        if not future.done():
            future.set_result(answer)

    return dispatch


@pytest.mark.parametrize("seed", range(5))
@run_with(virtual_time)
async def test_answers_keep_their_order_under_random_delays(loop: VirtualTimeLoop, /, seed: int) -> None:
    rng = random.Random(seed)
    network = SimulatedNetwork(loop, rng)

    server = Server(network.host("broker"), delayed_echo(rng), ConnectionLimits(max_in_flight_requests=8))
    await server.listen("broker", PORT)
    payloads = [b"%d" % number + bytes(rng.choice((0, 100, 9000))) for number in range(300)]
    transport, peer = await network.host("client").connect(Peer, "broker", PORT)
    assert isinstance(peer, Peer)
    for payload in payloads:
        transport.write(framed(payload))  # type: ignore[attr-defined]
        if rng.random() < 0.2:
            await asyncio.sleep(rng.random() * 0.1)
    await peer.wait_frames(len(payloads))
    assert peer.frames == payloads
    await server.close()
    await asyncio.sleep(1)
    assert peer.lost_at is not None


@run_with(virtual_time)
async def test_an_idle_connection_is_cut_within_a_sixteenth_of_the_limit(loop: VirtualTimeLoop, /) -> None:
    network = SimulatedNetwork(loop, random.Random(1))

    server = Server(network.host("broker"), delayed_echo(random.Random(1)), ConnectionLimits(max_idle_ms=HOUR_MS))
    await server.listen("broker", PORT)
    _, peer = await network.host("client").connect(Peer, "broker", PORT)
    assert isinstance(peer, Peer)
    while peer.lost_at is None:
        await asyncio.sleep(60)
    assert 3600 <= peer.lost_at <= 3600 * (1 + 2 / 16)
    await server.close()


@run_with(virtual_time)
async def test_a_half_open_connection_is_cut_though_the_peer_never_says_so(loop: VirtualTimeLoop, /) -> None:
    network = SimulatedNetwork(loop, random.Random(1))

    server = Server(network.host("broker"), delayed_echo(random.Random(1)), ConnectionLimits(max_idle_ms=HOUR_MS))
    await server.listen("broker", PORT)
    await network.host("client").connect(Peer, "broker", PORT)
    await asyncio.sleep(1)
    network.partition("client", "broker")
    assert len(server.connections) == 1
    await asyncio.sleep(2 * 3600)
    assert not server.connections
    await server.close()
