"""Which nodes of a cluster reach each other."""

from __future__ import annotations

import asyncio

import pytest

from crabka.embedded.nodes.topology import Topology
from crabka.runtime import AsyncioNetwork
from tests.support.async_tests import real_time, run_with

NODES = {9091: 1, 9092: 2, 9093: 3, 19091: 1, 19092: 2, 19093: 3}


def cut_pairs(topology: Topology) -> list[tuple[int, int]]:
    return [(one, other) for one in (1, 2, 3) for other in (1, 2, 3) if topology.is_cut(one, other)]


def test_groups_do_not_reach_each_other_until_the_partition_is_healed() -> None:
    topology = Topology(NODES)
    assert cut_pairs(topology) == []
    topology.partition([[1], [2, 3]])
    assert cut_pairs(topology) == [(1, 2), (1, 3), (2, 1), (3, 1)]
    topology.partition([[1], [3]])
    assert cut_pairs(topology) == [(1, 3), (3, 1)]
    topology.heal()
    assert cut_pairs(topology) == []
    assert [topology.node_of(port) for port in (9091, 19093, 1)] == [1, 3, None]


@pytest.mark.parametrize(
    ("groups", "message"),
    [([[1], [4]], "there is no node 4: the nodes are 1, 2, 3"), ([[1, 2], [2]], "node 2 cannot be in two groups")],
)
def test_groups_that_make_no_sense_are_refused(groups: list[list[int]], message: str) -> None:
    topology = Topology(NODES)
    with pytest.raises(ValueError, match=message):
        topology.partition(groups)
    assert cut_pairs(topology) == []


@run_with(real_time)
async def test_connections_across_the_cut_are_closed_and_refused() -> None:
    network = AsyncioNetwork()
    closed: dict[int, asyncio.Event] = {2: asyncio.Event(), 3: asyncio.Event()}

    class Client(asyncio.Protocol):
        def __init__(self, peer: int) -> None:
            self.peer = peer

        def connection_lost(self, exc: Exception | None) -> None:
            closed[self.peer].set()

    listeners = {node: await network.listen(asyncio.Protocol, "127.0.0.1", 0) for node in (2, 3)}
    topology = Topology({1: 1, **{listener.port: node for node, listener in listeners.items()}})
    own = topology.network_of(1)(network)
    transports = {
        node: (await own.connect(lambda node=node: Client(node), "127.0.0.1", listener.port))[0]  # type: ignore[misc]
        for node, listener in listeners.items()
    }
    await asyncio.to_thread(topology.partition, [[1, 3], [2]])
    await closed[2].wait()
    assert not closed[3].is_set()
    with pytest.raises(OSError, match="No route to host"):
        await own.connect(asyncio.Protocol, "127.0.0.1", listeners[2].port)
    topology.heal()
    transport, _ = await own.connect(asyncio.Protocol, "127.0.0.1", listeners[2].port)
    for each in (transport, *transports.values()):
        each.close()
    for listener in listeners.values():
        listener.close()
    await closed[3].wait()
