"""Finding the coordinator of a group, and asking again while it is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.coordinator_requests import ask_coordinator, find_coordinator
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.coordinators.answers import coordinator

PASSING = [ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator]


def serve(simulation: ClientSimulation, answer: Any, *, max_version: int = 6) -> None:
    for broker in simulation.brokers.brokers.values():
        broker.versions[ApiKey.FIND_COORDINATOR] = (0, max_version)
        broker.answers[ApiKey.FIND_COORDINATOR] = answer


@pytest.mark.parametrize("version", [0, 3, 4, 6])
@run_with(simulate, node_ids=(1, 2))
async def test_coordinator_is_found_in_every_version(simulation: ClientSimulation, /, version: int) -> None:
    serve(simulation, lambda request: coordinator(request, 2), max_version=version)
    async with simulation.connect() as cluster:
        assert await find_coordinator(cluster, "g") == 2
    (request,) = simulation.brokers.asked(ApiKey.FIND_COORDINATOR)
    assert request.version == version
    assert (getattr(request.body, "key", None) or request.body.coordinator_keys[0]) == "g"


@run_with(simulate, node_ids=(1, 2))
async def test_the_coordinator_itself_is_asked(simulation: ClientSimulation, /) -> None:
    serve(simulation, lambda request: coordinator(request, 2))
    addresses: list[str] = []

    async def ask(connection: Connection) -> str:
        addresses.append(connection.address)
        return "answer"

    async with simulation.connect() as cluster:
        assert await ask_coordinator(cluster, "g", ask) == "answer"
    assert addresses == ["{}:{}".format(*simulation.brokers.addresses[2])]


@pytest.mark.parametrize("code", PASSING)
@run_with(simulate)
async def test_missing_coordinator_is_looked_up_again(simulation: ClientSimulation, /, code: ErrorCode) -> None:
    answers: Iterator[ErrorCode] = iter([code, code, ErrorCode.none])

    serve(simulation, lambda request: coordinator(request, 1, next(answers)))

    async def ask(connection: Connection) -> int:
        return connection.in_flight_count

    async with simulation.connect() as cluster:
        assert await ask_coordinator(cluster, "g", ask) == 0
    assert len(simulation.brokers.asked(ApiKey.FIND_COORDINATOR)) == 3


@pytest.mark.parametrize("failure", [*(OperationError(code) for code in PASSING), ClientNetworkError("lost")])
@run_with(simulate)
async def test_coordinator_that_moves_while_asked_is_looked_up_again(
    simulation: ClientSimulation, /, failure: Exception
) -> None:
    failures = [failure]

    serve(simulation, lambda request: coordinator(request, 1))

    async def ask(_: Connection) -> str:
        if failures:
            raise failures.pop()
        return "answer"

    async with simulation.connect() as cluster:
        assert await ask_coordinator(cluster, "g", ask) == "answer"
    assert len(simulation.brokers.asked(ApiKey.FIND_COORDINATOR)) == 2


@run_with(simulate)
async def test_time_is_up_at_last(simulation: ClientSimulation, /) -> None:
    serve(simulation, lambda request: coordinator(request, -1, ErrorCode.coordinator_not_available))

    async def ask(_: Connection) -> None:
        raise AssertionError("there is nobody to ask")

    async with simulation.connect() as cluster:
        with pytest.raises(OperationError, match="no coordinator of group g: because") as caught:
            await ask_coordinator(cluster, "g", ask, timeout_ms=2_000)
    assert caught.value.error_code is ErrorCode.coordinator_not_available
    assert len(simulation.brokers.asked(ApiKey.FIND_COORDINATOR)) > 3


@run_with(simulate)
async def test_other_refusals_are_final(simulation: ClientSimulation, /) -> None:
    serve(simulation, lambda request: coordinator(request, 1, ErrorCode.group_authorization_failed))
    async with simulation.connect() as cluster:
        with pytest.raises(OperationError):
            await ask_coordinator(cluster, "g", lambda connection: connection.wait_closed())
    assert len(simulation.brokers.asked(ApiKey.FIND_COORDINATOR)) == 1


@run_with(simulate)
async def test_lost_connection_is_tried_again(simulation: ClientSimulation, /) -> None:
    cuts = [True]

    def answer(request: ReceivedRequest) -> Any:
        if cuts:
            cuts.pop()
            raise DisconnectError
        return coordinator(request, 1)

    serve(simulation, answer)

    async def ask(connection: Connection) -> bool:
        return connection.is_open

    async with simulation.connect() as cluster:
        assert await ask_coordinator(cluster, "g", ask)
