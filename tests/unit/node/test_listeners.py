"""The sockets of a node."""

from __future__ import annotations

import asyncio

import pytest

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.net.dispatch import ConnectionInfo, Dispatch, Response
from crabka.net.frame_memory import DEFAULT_LIMIT_BYTES
from crabka.node.listeners import NodeListeners
from crabka.protocol.apis import ApiKey
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import NODE_HOST, SimNode, build


def config(**settings: str) -> ServerConfig:
    properties = {**one_node_properties("/d1", NODE_HOST, 0), **settings}
    return ServerConfig.from_properties(properties)[0]


def nobody(*_args: object) -> None:
    return None


@pytest.fixture
def idle() -> SimNode:
    return SimNode()


@run_with(lambda test, idle: idle.loop.run(test()))
async def test_a_free_port_is_reported(idle: SimNode) -> None:
    listeners = NodeListeners(config(), idle.network.host(NODE_HOST))
    (endpoint,) = await listeners.bind()
    assert (endpoint.name, endpoint.host) == ("PLAINTEXT", NODE_HOST)
    assert endpoint.port > 0
    assert listeners.bootstrap_servers == f"{NODE_HOST}:{endpoint.port}"
    assert listeners.side_port_address is None
    await listeners.close_clients()


@run_with(lambda test, idle: idle.loop.run(test()))
async def test_clients_receive_the_advertised_address(idle: SimNode) -> None:
    reported = config(**{"advertised.listeners": "PLAINTEXT://public:1234"})
    listeners = NodeListeners(reported, idle.network.host(NODE_HOST))
    (endpoint,) = await listeners.bind()
    assert (endpoint.host, endpoint.port) == ("public", 1234)
    await listeners.close_clients()


@run_with(lambda test, idle: idle.loop.run(test()))
async def test_a_port_in_use_is_the_operators_problem(idle: SimNode) -> None:
    network = idle.network.host(NODE_HOST)
    first = NodeListeners(config(), network)
    (endpoint,) = await first.bind()
    taken = config(listeners=f"PLAINTEXT://{NODE_HOST}:{endpoint.port},CONTROLLER://127.0.0.1:0")
    with pytest.raises(ConfigError, match="cannot listen on"):
        await NodeListeners(taken, network).bind()
    await first.close_clients()


@run_with(lambda test, idle: idle.loop.run(test()))
async def test_controller_listeners_are_bound_and_closed_on_their_own(idle: SimNode) -> None:
    network = idle.network.host(NODE_HOST)
    listeners = NodeListeners(config(), network)
    (endpoint,) = await listeners.bind_controller(nobody)
    assert endpoint.name == "CONTROLLER"
    assert (listeners.bootstrap_servers, listeners.bootstrap_controllers) == ("", f"127.0.0.1:{endpoint.port}")
    await listeners.close_clients()
    taken = config(listeners=f"PLAINTEXT://{NODE_HOST}:0,CONTROLLER://127.0.0.1:{endpoint.port}")
    with pytest.raises(ConfigError, match="cannot listen on"):
        await NodeListeners(taken, network).bind_controller(nobody)
    await listeners.close_controllers()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, DEFAULT_LIMIT_BYTES),
        ({"socket.request.max.bytes": "500000000"}, 500_000_000),
        ({"queued.max.request.bytes": "200000000"}, 200_000_000),
    ],
)
@run_with(lambda test, idle: idle.loop.run(test()))
async def test_listeners_share_the_memory_that_is_configured(
    idle: SimNode, settings: dict[str, str], limit: int
) -> None:
    listeners = NodeListeners(config(**settings), idle.network.host(NODE_HOST))
    await listeners.bind()
    await listeners.bind_controller(nobody)
    servers = [*listeners._client_servers, *listeners._controller_servers]
    assert len(servers) >= 2
    assert {server.memory.limit_bytes for server in servers} == {limit}
    assert len({id(server.memory) for server in servers}) == len({id(server.turns) for server in servers}) == 1
    await listeners.close_clients()
    await listeners.close_controllers()


def test_requests_of_clients_pass_what_intercepts_them(node: SimNode) -> None:
    seen: list[ConnectionInfo] = []

    def wrap(dispatch: Dispatch) -> Dispatch:
        def look(connection: ConnectionInfo, frame: memoryview) -> Response | asyncio.Future[Response]:
            seen.append(connection)
            return dispatch(connection, frame)

        return look

    open_already = node.connect()
    assert node.node is not None
    node.node.listeners.intercept(wrap)
    open_already.post(ApiKey.API_VERSIONS, 0, build(ApiKey.API_VERSIONS, 0))
    node.run(open_already.response(ApiKey.API_VERSIONS, 0))
    [connection] = seen
    node.node.listeners.cut(connection)
    node.advance(10)
    assert open_already.closed


@run_with(lambda test, idle: idle.loop.run(test()))
async def test_an_abort_closes_all_sockets_at_once(idle: SimNode) -> None:
    listeners = NodeListeners(config(**{"crabka.http.listener": "node:0"}), idle.network.host(NODE_HOST))
    (controller,) = await listeners.bind_controller(lambda _: None)
    (broker,) = await listeners.bind()
    closed = asyncio.Event()

    class Client(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            closed.set()

    client = idle.network.host("client")
    await client.connect(Client, NODE_HOST, broker.port)
    listeners.abort()
    await closed.wait()
    for endpoint in (controller, broker):
        with pytest.raises(ConnectionRefusedError):
            await client.connect(Client, NODE_HOST, endpoint.port)
