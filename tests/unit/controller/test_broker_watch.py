"""A broker whose process is gone is fenced long before its session is over; one that is merely silent is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from crabka.controller.broker_watch import BrokerWatch
from crabka.controller.decisions.sessions import BrokerIncarnation
from crabka.metadata.cluster import Endpoint
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import BROKER_HOST, SimController, SimControllers, WireBroker, run_controllers

BROKER = BrokerIncarnation(11, 5)
ENDPOINT = Endpoint("PLAINTEXT", BROKER_HOST, 9092, 0)
CONNECTION = object()


def is_fenced(node: SimController) -> bool:
    return node.context.image.cluster.brokers[11].fenced


async def served(cluster: SimControllers) -> tuple[SimController, WireBroker]:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.listen()
    await broker.serve(node)
    return node, broker


@run_with(run_controllers)
async def test_a_killed_process_is_fenced_at_once(cluster: SimControllers, /) -> None:
    node, broker = await served(cluster)
    broker.die()
    await cluster.wait(lambda: is_fenced(node), timeout_s=1)
    # Its next run need not wait for the session.
    broker.incarnation_id = broker.directory
    assert (await broker.register(node)).error_code == 0


@run_with(run_controllers)
async def test_a_broker_that_only_lost_its_connection_is_left_alone(cluster: SimControllers, /) -> None:
    node, broker = await served(cluster)
    broker.hang_up()
    await cluster.pause(5)
    assert not is_fenced(node)
    await broker.heartbeat(node)
    broker.die()


@run_with(run_controllers, crabka_fast_failure_detection_enable="false")
async def test_the_key_turns_it_off(cluster: SimControllers, /) -> None:
    node, broker = await served(cluster)
    broker.die()
    await cluster.pause(5)
    assert not is_fenced(node)
    await cluster.wait(lambda: is_fenced(node), timeout_s=5)


@run_with(run_controllers, 3)
async def test_a_new_controller_dials_brokers_that_do_not_report(cluster: SimControllers, /) -> None:
    node, broker = await served(cluster)
    assert broker.listener is not None
    broker.listener.close()
    await node.stop()
    broker.hang_up()
    others = [each for each in cluster.nodes if each is not node]
    await cluster.wait(lambda: any(each.service.is_active for each in others))
    await cluster.wait(lambda: any(is_fenced(each) for each in others), timeout_s=3)
    await node.start()


@run_with(run_controllers, 3)
async def test_a_new_controller_gives_brokers_that_run_a_whole_session(cluster: SimControllers, /) -> None:
    node, broker = await served(cluster)
    await node.stop()
    broker.hang_up()
    others = [each for each in cluster.nodes if each is not node]
    await cluster.wait(lambda: any(each.service.is_active for each in others))
    active = next(each for each in others if each.service.is_active)
    await cluster.pause(8)
    assert not is_fenced(active)
    assert not (await broker.heartbeat(active)).is_fenced
    broker.die()
    await node.start()


class Watched:
    """A watch whose fencing is noted and whose network is scripted."""

    def __init__(self, node: SimController, connect: Callable[..., Any]) -> None:
        self.fenced: list[BrokerIncarnation] = []
        self.tasks: list[asyncio.Task[Any]] = []
        runtime = node.context.runtime

        class ScriptedNetwork:
            async def connect(self, *_args: Any) -> Any:
                return connect()

        class ScriptedRuntime:
            clock = runtime.clock
            network = ScriptedNetwork()

        self.watch = BrokerWatch(
            ScriptedRuntime(),  # type: ignore[arg-type]
            endpoint_of=lambda _broker: ENDPOINT,
            fence=self._fence,
            spawn=self._spawn,
        )
        self.watch.activate([])
        self.watch.note_heartbeat(BROKER, CONNECTION)

    async def _fence(self, broker: BrokerIncarnation) -> None:
        self.fenced.append(broker)

    def _spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine))
        return self.tasks[-1]


def refuse() -> None:
    raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("failure", "fenced"),
    [(ConnectionRefusedError, [BROKER]), (TimeoutError, []), (OSError, [])],
    ids=["refused", "timed out", "unreachable"],
)
@run_with(run_controllers)
async def test_only_refusals_report_a_dead_process(
    cluster: SimControllers, /, failure: type[Exception], fenced: list[BrokerIncarnation]
) -> None:
    def connect() -> None:
        raise failure

    watched = Watched(await cluster.active(), connect)
    watched.watch.connection_closed(CONNECTION)
    await cluster.pause(5)
    assert watched.fenced == fenced
    await asyncio.gather(*watched.tasks)


@run_with(run_controllers)
async def test_nothing_happens_after_the_term(cluster: SimControllers, /) -> None:
    watched = Watched(await cluster.active(), refuse)
    watched.watch.connection_closed(CONNECTION)
    watched.watch.deactivate()
    await cluster.pause(5)
    assert watched.fenced == []


@run_with(run_controllers)
async def test_a_broker_that_is_gone_is_not_dialled(cluster: SimControllers, /) -> None:
    watched = Watched(await cluster.active(), refuse)
    watched.watch.gone(BROKER)
    watched.watch.connection_closed(CONNECTION)
    await cluster.pause(5)
    assert (watched.fenced, watched.tasks) == ([], [])
