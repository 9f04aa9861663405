"""Controllers make themselves known to the active one."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.controller.decisions.registration import admit_controller
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimController, SimControllers, run_controllers


def registered(node: SimController) -> set[int]:
    return set(node.context.image.cluster.controllers)


@run_with(run_controllers, 3)
async def test_every_controller_is_registered_with_its_endpoints(cluster: SimControllers, /) -> None:
    await cluster.wait(lambda: all(registered(node) == {1, 2, 3} for node in cluster.nodes))
    for node_id, controller in cluster.nodes[0].context.image.cluster.controllers.items():
        assert [(each.name, each.host, each.port) for each in controller.endpoints] == [
            ("CONTROLLER", f"c{node_id}", 9093)
        ]
        assert controller.features["kraft.version"] == (0, 1)


@run_with(run_controllers, 3)
async def test_a_new_run_takes_the_place_of_the_last_one(cluster: SimControllers, /) -> None:
    await cluster.wait(lambda: all(registered(node) == {1, 2, 3} for node in cluster.nodes))
    node = await cluster.passive()
    before = node.context.image.cluster.controllers[node.node_id].incarnation_id
    await node.stop()
    await node.start()

    def is_replaced() -> bool:
        controller = node.context.image.cluster.controllers.get(node.node_id)
        return controller is not None and controller.incarnation_id != before

    await cluster.wait(is_replaced)


def test_a_registration_that_fails_unexpectedly_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [LookupError("where is it?")]

    def fail_first(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return admit_controller(*arguments)

    monkeypatch.setattr("crabka.controller.controller_registrar.admit_controller", fail_first)

    async def main(cluster: SimControllers) -> None:
        node = await cluster.active()
        await cluster.wait(lambda: registered(node) == {1})

    run_controllers(main)
    assert "Controller 1 cannot be registered" in caplog.text


@run_with(run_controllers)
async def test_nothing_is_sent_again_once_it_is_registered(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    await cluster.wait(lambda: registered(node) == {1})
    end = node.quorum.next_offset
    await cluster.pause(30)
    assert node.quorum.next_offset == end
