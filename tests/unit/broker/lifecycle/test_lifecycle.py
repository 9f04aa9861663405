"""A broker's life with the controller, in virtual time."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.broker.lifecycle.lifecycle import BrokerLifecycle, StartingBroker
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError, CrabkaError, InvariantError, OperationError
from crabka.metadata.cluster import Endpoint
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from tests.support.async_tests import run_with
from tests.support.nodes.controller_stand_in import ControllerInProcess

DIRECTORY = uuid.UUID(int=1000)
BROKER = StartingBroker(
    cluster_id="cluster",
    incarnation_id=uuid.UUID(int=5),
    endpoints=[Endpoint("PLAINTEXT", "host", 9092, 0)],
    log_dirs=[DIRECTORY],
    previous_epoch=3,
)

# What stopped the node of the last run.
FAILURES: list[CrabkaError] = []


class ScriptedController(ControllerInProcess):
    """Answers registrations with `errors` in turn, then takes them; heartbeats as its flags say."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[ErrorCode] = []
        self.heartbeat_error = ErrorCode.none
        self.registered_epoch = 17
        self.is_silent = False
        self.is_fenced = True
        self.may_stop = False
        self.answers[ApiKey.BROKER_REGISTRATION] = self._register
        self.answers[ApiKey.BROKER_HEARTBEAT] = self._heartbeat

    @property
    def heartbeats(self) -> list[Any]:
        return [body for key, body in self.asked if key is ApiKey.BROKER_HEARTBEAT]

    def _register(self, types: MessageTypes, _: Any) -> Any:
        error_code = self.errors.pop(0) if self.errors else ErrorCode.none
        return types.message(throttle_time=0, error_code=error_code, broker_epoch=self.registered_epoch)

    def _heartbeat(self, types: MessageTypes, body: Any) -> Any:
        if self.is_silent:
            raise OperationError(ErrorCode.request_timed_out, "nobody there")
        if body.broker_epoch != self.registered_epoch:
            return types.message(
                throttle_time=0,
                error_code=ErrorCode.stale_broker_epoch,
                is_caught_up=False,
                is_fenced=True,
                should_shut_down=False,
            )
        if not body.want_fence:
            self.is_fenced = False
        return types.message(
            throttle_time=0,
            error_code=self.heartbeat_error,
            is_caught_up=True,
            is_fenced=self.is_fenced,
            should_shut_down=self.may_stop and body.want_shut_down,
        )


Test = Callable[[BrokerLifecycle, ScriptedController, BrokerIdentity], Awaitable[None]]


def run(test: Test, **settings: str) -> None:
    loop = VirtualTimeLoop()
    rng = random.Random(1)
    network = SimulatedNetwork(loop, rng)
    runtime = simulated_runtime(loop, rng, network.host("node"), MemoryFileSystem())
    named = {key.replace("_", "."): value for key, value in settings.items()}
    config, _ = ServerConfig.from_properties({**one_node_properties("/d", "node", 9092, node_id=4), **named})

    async def main() -> None:
        controller, identity = ScriptedController(), BrokerIdentity(4)
        FAILURES.clear()
        lifecycle = BrokerLifecycle(
            config, runtime, controller, identity, metadata_offset=lambda: 99, fail=FAILURES.append
        )
        try:
            await test(lifecycle, controller, identity)
        finally:
            await lifecycle.close()

    loop.run(main())


@run_with(run)
async def test_a_registration_reports_who_the_broker_is(
    lifecycle: BrokerLifecycle, controller: ScriptedController, identity: BrokerIdentity, /
) -> None:
    assert await lifecycle.register(BROKER) == identity.broker_epoch == 17
    ((_, body),) = controller.asked
    assert (body.broker_id, body.cluster_id, body.previous_broker_epoch) == (4, "cluster", 3)
    assert body.log_dirs == (DIRECTORY,)
    assert [(each.name, each.host, each.port) for each in body.listeners] == [("PLAINTEXT", "host", 9092)]
    assert "metadata.version" in {feature.name for feature in body.features}


@run_with(run)
async def test_a_registration_is_repeated_until_the_session_before_is_over(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    controller.errors = [ErrorCode.duplicate_broker_registration] * 3
    assert await lifecycle.register(BROKER) == 17
    assert len(controller.asked) == 4


@run_with(run)
async def test_a_broker_that_is_refused_for_good_does_not_start(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    controller.errors = [ErrorCode.inconsistent_cluster_id]
    with pytest.raises(ConfigError, match="inconsistent_cluster_id"):
        await lifecycle.register(BROKER)


@run_with(run, initial_broker_registration_timeout_ms="500")
async def test_a_registration_that_takes_too_long_says_why(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    controller.errors = [ErrorCode.duplicate_broker_registration] * 1_000
    with pytest.raises(ConfigError, match="within 500 ms: duplicate_broker_registration"):
        await lifecycle.register(BROKER)


@run_with(run)
async def test_heartbeats_come_at_their_interval_and_report_how_far_the_metadata_is_read(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await asyncio.sleep(9)
    assert len(controller.heartbeats) == 5
    first = controller.heartbeats[0]
    assert (first.broker_id, first.broker_epoch, first.current_metadata_offset) == (4, 17, 99)
    assert first.want_fence
    assert not first.want_shut_down


@run_with(run)
async def test_a_broker_that_wants_to_serve_does_not_wait_for_the_interval(lifecycle: BrokerLifecycle, /) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await asyncio.sleep(0.1)
    async with asyncio.timeout(0.1):
        await lifecycle.serve()


@run_with(run)
async def test_a_broker_that_was_fenced_meanwhile_asks_again_at_once(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    controller.answers[ApiKey.BROKER_HEARTBEAT] = lambda types, _: types.message(
        throttle_time=0, error_code=ErrorCode.none, is_caught_up=True, is_fenced=True, should_shut_down=False
    )
    before = len(controller.heartbeats)
    await asyncio.sleep(2.1)
    assert len(controller.heartbeats) > before + 2


@run_with(run)
async def test_a_lost_log_dir_is_reported_at_once_and_from_then_on(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    lifecycle.lose_directories([DIRECTORY])
    await asyncio.sleep(0.1)
    assert controller.heartbeats[-1].offline_log_dirs == (DIRECTORY,)
    before = len(controller.heartbeats)
    await asyncio.sleep(2.1)
    assert [each.offline_log_dirs for each in controller.heartbeats[before:]] == [(DIRECTORY,)]


@run_with(run)
async def test_waiters_resume_when_the_controller_knows_of_a_lost_log_dir(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    waiting = asyncio.ensure_future(lifecycle.wait_acknowledged(DIRECTORY))
    controller.is_silent = True
    lifecycle.lose_directories([DIRECTORY])
    await asyncio.sleep(5)
    assert not waiting.done()
    controller.is_silent = False
    await waiting
    await lifecycle.wait_acknowledged(DIRECTORY)


@run_with(run)
async def test_cordoned_log_dirs_are_reported_at_once_when_they_change(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    assert controller.heartbeats[-1].cordoned_log_dirs is None
    for directories in ([DIRECTORY], []):
        lifecycle.cordon_directories(directories)
        await asyncio.sleep(0.1)
        assert controller.heartbeats[-1].cordoned_log_dirs == tuple(directories)
    before = len(controller.heartbeats)
    lifecycle.cordon_directories([])
    await asyncio.sleep(0.1)
    assert len(controller.heartbeats) == before


@run_with(run)
async def test_a_broker_retires_when_the_controller_lets_it_go(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    retiring = asyncio.ensure_future(lifecycle.retire())
    await asyncio.sleep(1)
    assert not retiring.done()
    assert controller.heartbeats[-1].want_shut_down
    controller.may_stop = True
    await retiring


@run_with(run)
async def test_a_broker_without_controllers_stops_without_leave_when_its_session_is_over(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    controller.is_silent = True
    started = asyncio.get_running_loop().time()
    await lifecycle.retire()
    assert 8.9 <= asyncio.get_running_loop().time() - started <= 9.1


@run_with(run)
async def test_a_broker_that_is_held_up_for_too_long_stops_without_leave(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    started = asyncio.get_running_loop().time()
    await lifecycle.retire()
    assert 300 <= asyncio.get_running_loop().time() - started <= 310
    assert len(controller.heartbeats) < 2_000


@run_with(run)
async def test_a_broker_that_never_began_retires_at_once(lifecycle: BrokerLifecycle, /) -> None:
    await lifecycle.retire()


@run_with(run)
async def test_refused_heartbeats_go_on_at_their_interval(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    controller.heartbeat_error = ErrorCode.unknown_server_error
    await lifecycle.register(BROKER)
    lifecycle.start()
    await asyncio.sleep(5)
    assert len(controller.heartbeats) == 3


def test_a_heartbeat_that_fails_unexpectedly_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    async def test(lifecycle: BrokerLifecycle, controller: ScriptedController, _: BrokerIdentity) -> None:
        await lifecycle.register(BROKER)
        failures: list[Exception] = [LookupError("where is it?")]
        answer = controller.answers[ApiKey.BROKER_HEARTBEAT]

        def fail_first(types: MessageTypes, body: Any) -> Any:
            if failures:
                raise failures.pop()
            return answer(types, body)

        controller.answers[ApiKey.BROKER_HEARTBEAT] = fail_first
        lifecycle.start()
        async with asyncio.timeout(60):
            await lifecycle.serve()

    run(test)
    assert "where is it?" in caplog.text
    assert not FAILURES


@run_with(run)
async def test_a_heartbeat_that_breaks_an_invariant_ends_the_node(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)

    def broken(_types: MessageTypes, _body: Any) -> Any:
        raise InvariantError("two controllers")

    controller.answers[ApiKey.BROKER_HEARTBEAT] = broken
    lifecycle.start()
    await asyncio.sleep(10)
    assert [str(each) for each in FAILURES] == ["two controllers"]


@run_with(run)
async def test_a_broker_that_was_unregistered_registers_anew_and_serves(
    lifecycle: BrokerLifecycle, controller: ScriptedController, identity: BrokerIdentity, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    await lifecycle.serve()
    controller.registered_epoch = 18
    await asyncio.sleep(5)
    assert identity.broker_epoch == 18
    assert controller.heartbeats[-1].broker_epoch == 18
    registration = [body for key, body in controller.asked if key is ApiKey.BROKER_REGISTRATION][-1]
    assert (registration.incarnation_id, registration.previous_broker_epoch) == (BROKER.incarnation_id, -1)
    assert not controller.is_fenced


@run_with(run)
async def test_a_broker_whose_id_another_process_has_stops_with_a_sentence(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    controller.registered_epoch = 18
    controller.errors = [ErrorCode.duplicate_broker_registration] * 10_000
    await asyncio.sleep(70)
    (failure,) = FAILURES
    assert "no longer registered" in str(failure)
    assert "duplicate_broker_registration" in str(failure)


@run_with(run)
async def test_a_broker_that_was_unregistered_while_it_stops_may_stop(
    lifecycle: BrokerLifecycle, controller: ScriptedController, /
) -> None:
    await lifecycle.register(BROKER)
    lifecycle.start()
    controller.registered_epoch = 18
    await lifecycle.retire()
    assert len([key for key, _body in controller.asked if key is ApiKey.BROKER_REGISTRATION]) == 1
