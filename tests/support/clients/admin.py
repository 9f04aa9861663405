"""An admin client against brokers that answer by a script, in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.metadata_sources import BrokerMetadata, ControllerMetadata, MetadataSource
from crabka.protocol.apis import ApiKey
from tests.support.clients.scripted_broker import Answer
from tests.support.clients.simulation import ClientSimulation, simulate

AdminTest = Callable[[Admin, ClientSimulation], Awaitable[None]]


def with_admin(test: AdminTest, *, node_ids: tuple[int, ...] = (1,), **answers: Answer) -> None:
    """Run a test with an admin client; `answers` are answer functions by the name of the API."""
    _run(test, BrokerMetadata(), node_ids, answers)


def with_controller_admin(test: AdminTest, *, node_ids: tuple[int, ...] = (1,), **answers: Answer) -> None:
    """Like `with_admin` with a client of controllers."""
    _run(test, ControllerMetadata(), node_ids, answers)


def _run(test: AdminTest, source: MetadataSource, node_ids: tuple[int, ...], answers: dict[str, Answer]) -> None:
    async def main(simulation: ClientSimulation) -> None:
        for broker in simulation.brokers.brokers.values():
            broker.answers |= {ApiKey[name]: answer for name, answer in answers.items()}
        settings = simulation.settings
        async with Cluster(simulation.runtime, simulation.bootstrap, settings, source) as cluster:
            await test(Admin(cluster, timeout_ms=2_000), simulation)

    simulate(main, node_ids=node_ids)
