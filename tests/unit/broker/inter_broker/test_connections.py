"""Connections to other brokers follow the metadata and survive losses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from crabka.clients.errors import ClientClosedError, ClientNetworkError, RequestTimeoutError
from crabka.metadata.cluster import Endpoint
from crabka.metadata.delta import MetadataDelta
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import NO_ANSWER, Later, ReceivedRequest, ScriptedBroker
from tests.support.nodes.peer_brokers import PORT, PeerWorld, among_peers
from tests.support.quorum.images import cluster


def build(types: MessageTypes) -> Any:
    return types.message(transactional_id=None, transaction_timeout=0, producer_id=-1, producer_epoch=-1)


def answer(request: ReceivedRequest) -> Any:
    return request.types.message(throttle_time=0, error_code=ErrorCode.none, producer_id=7, producer_epoch=0)


async def ask(world: PeerWorld, node_id: int = 2, timeout_ms: int = 1_000, **options: Any) -> int:
    response = await world.brokers.request(node_id, ApiKey.INIT_PRODUCER_ID, build, timeout_ms, **options)
    return int(response.producer_id)


def move(world: PeerWorld, *, epoch: int, host: str = "host-2", port: int = PORT) -> None:
    """Let broker 2 register anew."""
    brokers = dict(world.image.cluster.brokers)
    brokers[2] = replace(brokers[2], epoch=epoch, endpoints=(Endpoint("PLAINTEXT", host, port, 0),))
    world.image = replace(world.image, cluster=replace(world.image.cluster, brokers=brokers))


@run_with(among_peers)
async def test_requests_to_a_broker_share_a_connection(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = answer
    assert await asyncio.gather(*(ask(world) for _ in range(5))) == [7] * 5
    assert world.peers[2].connection_count == 1
    assert world.peers[2].asked(ApiKey.INIT_PRODUCER_ID)[0].client_id == "broker-1"
    assert world.peers[3].connection_count == 0


@run_with(among_peers)
async def test_a_channel_has_a_connection_of_its_own(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = lambda request: Later(500, answer(request))
    slow = asyncio.ensure_future(ask(world, channel="slow"))
    await asyncio.sleep(0.1)
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = answer
    assert await ask(world) == 7
    assert not slow.done()
    assert await slow == 7
    assert world.peers[2].connection_count == 2


@run_with(among_peers)
async def test_a_lost_connection_is_dialled_again(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = lambda _request: NO_ANSWER
    lost = asyncio.ensure_future(ask(world))
    await asyncio.sleep(0.1)
    world.network.cut("host-1", "host-2")
    with pytest.raises(ClientNetworkError):
        await lost
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = answer
    assert await ask(world) == 7
    assert world.peers[2].connection_count == 2


@run_with(among_peers)
async def test_a_broker_that_moved_is_dialled_at_its_new_endpoint(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = answer
    await ask(world)
    moved = ScriptedBroker()
    moved.answers[ApiKey.INIT_PRODUCER_ID] = answer
    await moved.listen(world.network.host("elsewhere"), "elsewhere", 7000)
    move(world, epoch=50, host="elsewhere", port=7000)
    await ask(world)
    assert (world.peers[2].connection_count, moved.connection_count) == (1, 1)
    await asyncio.sleep(1)
    assert not world.peers[2].connections
    moved.close()


@run_with(among_peers)
async def test_a_new_incarnation_is_dialled_anew(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = answer
    await ask(world)
    move(world, epoch=50)
    await ask(world)
    await ask(world)
    assert world.peers[2].connection_count == 2


@run_with(among_peers)
async def test_a_broker_that_does_not_answer_in_time(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = lambda _request: NO_ANSWER
    began_ms = world.runtime.clock.monotonic_ms()
    with pytest.raises(RequestTimeoutError):
        await ask(world, timeout_ms=300)
    assert world.runtime.clock.monotonic_ms() - began_ms == pytest.approx(300, abs=5)


@run_with(among_peers)
async def test_the_time_includes_that_of_dialling(world: PeerWorld, /) -> None:
    world.network.isolate("host-2")
    began_ms = world.runtime.clock.monotonic_ms()
    with pytest.raises(RequestTimeoutError, match="broker 2 was not reached"):
        await ask(world, timeout_ms=300)
    assert world.runtime.clock.monotonic_ms() - began_ms == pytest.approx(300, abs=5)
    world.network.heal_all()
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = answer
    assert await ask(world) == 7


@run_with(among_peers)
async def test_brokers_that_cannot_be_asked(world: PeerWorld, /) -> None:
    with pytest.raises(ClientNetworkError, match="broker 9 is not registered"):
        await ask(world, 9)
    world.image = cluster(1, 2, 3, fenced=[3])
    with pytest.raises(ClientNetworkError, match="broker 3 is fenced"):
        await ask(world, 3)
    brokers = {2: replace(world.image.cluster.brokers[2], endpoints=())}
    world.image = replace(world.image, cluster=replace(world.image.cluster, brokers=brokers))
    with pytest.raises(ClientNetworkError, match="broker 2 has no listener PLAINTEXT"):
        await ask(world, 2)
    assert world.peers[3].connection_count == 0


@run_with(among_peers)
async def test_closing_fails_what_is_in_flight_and_all_that_follows(world: PeerWorld, /) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = lambda _request: NO_ANSWER
    waiting = asyncio.ensure_future(ask(world))
    await asyncio.sleep(0.1)
    dialling = asyncio.ensure_future(ask(world, 3))
    await asyncio.sleep(0)
    await world.brokers.close()
    with pytest.raises(ClientNetworkError):
        await waiting
    with pytest.raises(ClientClosedError):
        await dialling
    with pytest.raises(ClientClosedError):
        await ask(world)


@pytest.mark.parametrize("outcome", ["fenced", "gone", "anew", "unchanged"])
@run_with(among_peers)
async def test_requests_do_not_wait_for_a_broker_that_the_metadata_gave_up(world: PeerWorld, /, outcome: str) -> None:
    world.peers[2].answers[ApiKey.INIT_PRODUCER_ID] = lambda _request: NO_ANSWER
    waiting = asyncio.ensure_future(ask(world, timeout_ms=60_000))
    await asyncio.sleep(0.1)
    world.network.partition("host-1", "host-2")
    delta = MetadataDelta(world.image)
    match outcome:
        case "fenced":
            world.image = cluster(1, 2, 3, fenced=[2])
        case "gone":
            world.image = cluster(1, 3)
        case "anew":
            move(world, epoch=50)
    world.brokers.on_metadata(delta, world.image)
    await asyncio.sleep(0.1)
    assert waiting.done() is (outcome != "unchanged")
    waiting.cancel()
    with pytest.raises((ClientNetworkError, asyncio.CancelledError)):
        await waiting
    world.network.heal_all()
